"""Raw text to ids: vocabularies that normalise themselves, in Python and in the graph."""
