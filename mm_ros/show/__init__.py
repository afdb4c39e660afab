"""Drawing without ROS: renderer, films, and the inspector page."""
