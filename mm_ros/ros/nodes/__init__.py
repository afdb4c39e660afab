"""The ROS nodes of mm_ros, one per file."""
