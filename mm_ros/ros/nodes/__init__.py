"""The ROS nodes of mm_ros; each node has its own file."""
