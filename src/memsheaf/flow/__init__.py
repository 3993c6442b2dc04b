"""One turn, in order."""
