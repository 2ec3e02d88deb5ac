"""What a board tells: read models over a validated history. Pure; nothing here decides anything."""
