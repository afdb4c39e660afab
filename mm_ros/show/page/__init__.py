"""Inspector page in the browser: scenes and panels made with the library viser. The node `viewer`
(`ros/nodes/viewer.py`) passes the data of the avatars to the page."""
