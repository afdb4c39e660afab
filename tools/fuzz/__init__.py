"""Fuzzing of all file readers with damaged files: `make fuzz SECONDS=60`."""
