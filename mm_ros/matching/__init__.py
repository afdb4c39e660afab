"""Motion matching: select the pose that continues the current motion and follows the desired trajectory."""
