"""Body landmarks from a camera, and the estimated pose of the camera."""
