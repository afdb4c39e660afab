"""Draws avatars and robots without ROS: renderer for pictures, films, and the inspector page in the browser."""
