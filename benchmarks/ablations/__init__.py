"""The comparisons of the ALBERT paper at small scale; see docs/ablations.md."""
