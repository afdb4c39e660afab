"""This package estimates the direction in which the user's pelvis points."""
