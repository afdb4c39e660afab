"""Quaternions, springs and two-bone inverse kinematics."""
