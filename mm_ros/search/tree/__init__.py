"""The wide tree: an exact index that tests 16 boxes at a time."""
