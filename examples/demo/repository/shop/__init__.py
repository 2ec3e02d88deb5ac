"""A small shop that reads its data through a client SDK."""
