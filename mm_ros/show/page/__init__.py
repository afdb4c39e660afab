"""Inspector page in the browser: scenes and panels on viser, with data from `ros/nodes/viewer.py`."""
