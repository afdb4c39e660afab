"""The desired trajectory of the body."""
