"""The steps that made the tables what they are; each is kept as it was released."""
