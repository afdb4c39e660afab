"""BVH files: reader, writer and their compiled parts."""
