"""Errors, settings, the cache folder, files and processes: what all other packages use."""
