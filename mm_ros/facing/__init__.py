"""The direction that the pelvis faces."""
