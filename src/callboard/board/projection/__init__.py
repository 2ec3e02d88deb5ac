"""The state that the records mean, its indexes, and one transition a record kind. Pure."""
