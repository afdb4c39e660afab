"""Motion matching: the pose that continues the motion and follows the trajectory."""
