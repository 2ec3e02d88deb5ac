"""Where the ledger's bytes live: a Git branch, or memory. Nothing here knows what a line means."""
