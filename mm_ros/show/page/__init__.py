"""The page in the browser: scenes and panels on viser. Knows core's types, not ROS; `ros/nodes/viewer.py` feeds it."""
