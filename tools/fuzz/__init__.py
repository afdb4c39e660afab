"""Damaged files against everything that opens files: `make fuzz SECONDS=60`."""
