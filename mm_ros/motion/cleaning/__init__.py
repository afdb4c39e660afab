"""Cleaning of recorded motion: a list of steps that turn the frames of a file into clips of the motion database."""
