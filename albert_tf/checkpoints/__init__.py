"""Reading and writing weights: one table of names, one directory format."""
