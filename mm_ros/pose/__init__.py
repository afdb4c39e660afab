"""Post-processing of the matched pose."""
