"""Skeleton, kinematics and skin of the avatar, and the data types that pass between the stages."""
