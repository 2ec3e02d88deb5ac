"""From settings, recipes and plans to accepted requests; nothing else writes to a ledger."""
