"""Fitted values of motion matching.

Most of these values were fitted to CMU motion with simulated trackers (docs/evaluation.md), without the subjects 08 and
35. The values of the state machine and of the learned engine were fitted to the procedural database. The command
`python tools/sensitivity.py mm_ros/matching/fitted.py CLIP…` halves and doubles each value, and prints how the figures
of `mm_ros evaluate` change (result: benchmarks/2026-11-constants.md).
"""

# For `matcher.py`: While the estimate of the user's feet is certain, `jump_cost` is multiplied by 1 + `FEET_JUMP_COST`,
# because the feet add to the cost of all frames.
FEET_JUMP_COST = 16.0
# If the user's estimated ankle is higher than `LEG_LIFTED` [m], frames with kicks and lifted knees are searched, too.
LEG_LIFTED = 0.3
# If the head is lower than `LYING_RATIO` times its standing height, frames of lying people are searched, too.
LYING_RATIO = 0.55
# A clip that leaves the height band (range of head heights) may go on playing for about one step of a walk.
BAND_GRACE_S = 0.7

# For `engines/source.py`: A clip outside the height band may go on playing if its head height differs from the user's
# by less than `BAND_LEEWAY` times the standing head height.
BAND_LEEWAY = 0.03
# Frames without the tag of the height band may not continue to play if their head height is inside the band by more
# than `BAND_EDGE` times the standing head height. The margin `BAND_EDGE` is needed because frames were assigned to
# bands by heights that were averaged over 0.5 s.
BAND_EDGE = 0.01

# For `tempo.py`: If the motion is slower than `SLOWEST_TEMPO` [m/s] and turns by less than `SLOWEST_TURN` [rad/s], its
# playback speed does not change.
SLOWEST_TEMPO, SLOWEST_TURN = 0.2, 0.4
# The playback speed is chosen so that the avatar catches up with the user within the time `CATCH_UP_S`.
CATCH_UP_S = 0.4
TEMPO_HALFLIFE_S = 0.1  # Half-life with which the playback speed is smoothed.

# For `body_facing.py`: half-life with which the turn of the hips is smoothed, because a jump between clips would change
# the turn abruptly.
TURN_HALFLIFE_S = 0.06

SOFT_WALL = 0.6  # From this share of the accuracy limit on, the root is pulled faster to its desired position.
# Rate with which the root is pulled to its desired position when its distance is the accuracy limit [1/s]. With a rate
# of 35/s, the avatar's root stays well within 0.1 m of a user who walks at 1.4 m/s.
WALL_RATE = 35.0
RETURN_S = 0.5  # After a gap in tracking, the root returns to the user within the time `RETURN_S` instead of jumping.
RETURN_SPEEDS = (3.0, 6.0)  # Minimum speeds of the root's return after a gap in tracking [m/s, rad/s].
# After a gap in tracking, the root jumps to the user if the distance exceeds `RETURN_M`, because a fast return would
# look like a leap of the hands.
RETURN_M = 3.0

# A foot's contact begins when its log odds exceed `CONTACT_BEGINS`, and ends when they are below `CONTACT_ENDS`.
CONTACT_BEGINS, CONTACT_ENDS = 2.0, 1.0
# `ANSWER_COST` is added to `jump_cost`, because the projector network finds frames only approximately.
ANSWER_COST = 3.0
# The projector network runs only once if every feature weight is at least `SAME_WEIGHTS` times its training weight.
SAME_WEIGHTS = 0.999

LOOP_SPEEDS = (0.0, 1.2, 2.8)  # Desired speeds of the state machine's loops for standing, walking and running [m/s].
LOOP_BORDERS, LOOP_HYSTERESIS = (0.3, 2.0), 0.1  # Speeds at which walk and run begin, and their hysteresis [m/s].
CROSS_FADE_S = 0.25  # Duration of the blend from one loop of the state machine to the next.
# Weights of a loop's speed error [per m/s] and of its difference from the usual posture [per m] in the cost of a loop.
SPEED_COST, DISSIMILARITY_COST = 20.0, 50.0
SHORTEST_LOOP_S, LONGEST_LOOP_S = 0.7, 2.5  # Minimum and maximum duration of the state machine's loops.
LOOP_TURN = 0.15  # A loop's turn rate adds to its cost only above `LOOP_TURN` [rad/s].
