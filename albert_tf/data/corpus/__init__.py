"""From files of any size to documents and their sentences, a block at a time."""
