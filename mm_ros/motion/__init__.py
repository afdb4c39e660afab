"""Conversion of motion capture files to the motion database for search and playback."""
