"""Chain order, replay and byte budgets: from lines to a validated projection. Pure."""
