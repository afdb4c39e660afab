"""The command `mm_ros`: one file per verb."""
