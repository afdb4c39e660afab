"""Reader and writer of BVH files, a text format of motion capture."""
