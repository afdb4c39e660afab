"""Order of the step network's outputs."""

MOVES, CONTACT, EVENT = 0, 1, 2  # indices of the log odds that a foot moves, stands and touches down
ANKLE = slice(3, 6)  # ankle relative to the point below the headset, in heading axes, divided by the standing height
VELOCITY = slice(6, 9)  # 1/s
LOG_SCALE, LOG_SPEED_SCALE = 9, 10  # logarithm of the mean error of position and velocity
FEET = 11  # number of outputs for one foot; the left foot comes first.
# Number of outputs for each of AHEAD_S: shift of the hips (2), cosine and sine of facing minus heading, two logarithms
# of scales
AHEAD = 6
AHEAD_S = (0.33, 0.67, 1.0)  # times of the predicted positions
OUTPUTS = 2 * FEET + AHEAD * len(AHEAD_S)
