"""The user as a camera sees them: landmarks, and where the camera stands."""
