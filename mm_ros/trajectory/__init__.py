"""Predict the desired trajectory of the user's body for about the next second."""

CONTROLS = ("vr", "joystick", "keyboard", "path")  # ways to steer the avatar: headset, gamepad, keyboard or path
