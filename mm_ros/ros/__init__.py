"""The ROS 2 nodes of mm_ros; no other package of mm_ros imports rclpy."""
