"""What stands in the files of a layer: typed, closed records and their one reader. No I/O."""
