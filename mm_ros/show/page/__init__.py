"""Inspector page in the browser: scenes and panels made with the library viser. The node `ros/nodes/viewer.py` provides
the data of the page."""
