"""Motion matching: select the pose that continues the motion and follows the desired trajectory."""
