"""Goals within goals: a layer keeps one scoped goal on disk, and a child layer delivers a part."""
