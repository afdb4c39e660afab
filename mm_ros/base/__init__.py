"""Errors, settings, cache, atomic files and processes."""
