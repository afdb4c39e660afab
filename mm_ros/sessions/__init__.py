"""Recordings: rosbag2 files and tables."""
