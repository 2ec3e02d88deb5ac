"""One transition a record kind: what each operation demands of the state and does to it."""
