"""Benchmarks of speed and quality, compared with other software."""
