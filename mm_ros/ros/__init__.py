"""The ROS 2 graph: the only package that imports rclpy."""
