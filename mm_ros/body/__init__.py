"""Skeleton, kinematics and skin of the avatar, and the data types that one processing stage passes to the next."""
