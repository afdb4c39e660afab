"""Order of the step network's outputs."""

MOVES, CONTACT, EVENT = 0, 1, 2  # logits, for each foot
ANKLE = slice(3, 6)  # ankle from the headset's floor point, heading axes, over the height
VELOCITY = slice(6, 9)  # 1/s
LOG_SCALE, LOG_SPEED_SCALE = 9, 10  # logarithm of the mean error of position and velocity
FEET = 11  # outputs of one foot: left, then right
AHEAD = 6  # for each of the times: shift of the hips (2), cosine and sine of the facing less the heading, log scales
AHEAD_S = (0.33, 0.67, 1.0)
OUTPUTS = 2 * FEET + AHEAD * len(AHEAD_S)
