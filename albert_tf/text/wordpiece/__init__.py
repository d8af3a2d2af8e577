"""WordPiece vocabularies (`vocab.txt`), as the Chinese ALBERT models have them."""
