"""Reads, writes and plays recordings of an avatar's inputs: rosbag2 files and CSV tables."""
