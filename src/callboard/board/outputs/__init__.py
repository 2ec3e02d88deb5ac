"""What a worker may do to the world: claim scope, contracts, handlers, verification."""
