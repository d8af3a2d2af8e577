"""From a corpus to a directory of pretraining examples: on one machine, or on a cluster."""
