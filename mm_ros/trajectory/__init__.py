"""This package predicts the desired trajectory of the body."""

CONTROLS = ("vr", "joystick", "keyboard", "path")  # inputs that steer the avatar
