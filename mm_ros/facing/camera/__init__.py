"""This package detects body landmarks in camera pictures, and estimates the pose of the camera from them."""
