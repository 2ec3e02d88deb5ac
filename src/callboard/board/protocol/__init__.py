"""What is written on the board: typed, closed records and the identities derived from them."""
