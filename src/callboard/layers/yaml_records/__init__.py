"""YAML that people write, read as records: every fault of a file at once, each with its place."""
