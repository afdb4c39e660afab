"""Benchmarks of the running ROS graph: latency, CPU time and memory."""
