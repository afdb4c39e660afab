"""Conversion of motion capture files to a motion database, which motion matching searches and plays."""
