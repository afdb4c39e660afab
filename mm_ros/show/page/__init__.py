"""The inspector page in the browser: scenes and panels on viser. `ros/nodes/viewer.py` feeds it."""
