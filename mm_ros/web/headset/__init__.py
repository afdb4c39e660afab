"""The page for headset browsers (WebXR), and its server."""
