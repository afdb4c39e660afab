"""Test all file readers of mm_ros with damaged files (fuzzing): `make fuzz SECONDS=60`."""
