"""The command `mm_ros`, with one file per verb."""
