"""The headset page, which sends the poses of headset and controllers from a browser by WebXR, and its server."""
