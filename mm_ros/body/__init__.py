"""The skeleton, its kinematics and shape, and the values that pass between stages."""
