"""Benchmarks that compare the speed and the quality of mm_ros with other software and with published figures."""
