"""One node per file."""
