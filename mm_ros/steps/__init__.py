"""Estimate the user's steps from headset and controllers."""
