"""Benchmarks that measure latency, CPU time and memory of the running ROS graph."""
