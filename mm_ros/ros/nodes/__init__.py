"""The ROS nodes, one per file."""
