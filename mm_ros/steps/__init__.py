"""The user's steps, estimated from headset and controllers."""
