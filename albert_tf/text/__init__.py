"""Raw text to ids: vocabularies that normalize themselves, in Python and in the graph."""
