"""Cleaning of recorded motion: one ordered list of steps, from the frames of a file to clips of the database."""
