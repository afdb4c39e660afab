"""Conversion of device poses into one filtered stream of trackers."""
