"""`mm_ros evaluate`: the graph's own chain over clips and sessions, against truth and baselines."""
