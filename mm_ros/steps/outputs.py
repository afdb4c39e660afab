"""Indices of the outputs of the step network, which estimates the feet of the user."""

MOVES, CONTACT, EVENT = 0, 1, 2  # indices of the log odds that a foot moves, stands and touches down
# Indices of the ankle's position from the floor below the headset, in heading axes, divided by the standing height.
ANKLE = slice(3, 6)
VELOCITY = slice(6, 9)  # indices of the ankle's velocity, divided by the user's standing height [1/s]
LOG_SCALE, LOG_SPEED_SCALE = 9, 10  # indices of the logarithms of the expected errors of ankle position and velocity
FEET = 11  # number of outputs for each foot of the user; the outputs for the left foot come first
# The network has 6 outputs for each of the times `AHEAD_S`: the shift of the hips (2 numbers), cosine and sine of the
# angle from the heading to the facing, and the logarithms of the expected errors of shift and facing.
AHEAD = 6
AHEAD_S = (0.33, 0.67, 1.0)  # The network predicts the motion of the hips after the times `AHEAD_S`.
OUTPUTS = 2 * FEET + AHEAD * len(AHEAD_S)
