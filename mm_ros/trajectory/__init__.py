"""Predict the desired trajectory of the user's body for about the next second."""

CONTROLS = ("vr", "joystick", "keyboard", "path")  # inputs that steer the avatar
