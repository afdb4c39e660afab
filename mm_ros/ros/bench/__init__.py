"""Latency and load of the running graph."""
