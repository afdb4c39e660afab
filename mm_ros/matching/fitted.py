"""Fitted values of motion matching.

Most of these values were fitted to CMU motion with simulated trackers (docs/evaluation.md), without the subjects 08 and
35. The values of the state machine and of the learned engine were fitted to the procedural database. The command
`python tools/sensitivity.py mm_ros/matching/fitted.py CLIP…` halves and doubles each value, and prints how the figures
of `mm_ros evaluate` change (result: benchmarks/2026-11-constants.md).
"""

# For `matcher.py`: While the user's feet are certain, `jump_cost` is multiplied by 1 + `FEET_JUMP_COST`, because the
# feet raise all costs.
FEET_JUMP_COST = 16.0
# If an estimated ankle is higher than `LEG_LIFTED` [m], the search includes frames with kicks and lifted knees.
LEG_LIFTED = 0.3
# If the head is lower than `LYING_RATIO` times its standing height, the search includes frames of lying people.
LYING_RATIO = 0.55
# Motion that leaves its height band may continue for the time `BAND_GRACE_S`, which is about one step of a walk.
BAND_GRACE_S = 0.7

# For `engines/source.py`: Motion outside the height band may continue if its head height differs from the user's by
# less than `BAND_LEEWAY` times the standing head height.
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

SOFT_WALL = 0.6  # Larger distances than `SOFT_WALL` times the accuracy limit increase the pull of the root.
# Rate of the pull of the root to its desired position at the accuracy limit [1/s]. With the rate 35, the root follows a
# user who walks at 1.4 m/s with an error well below 0.1 m.
WALL_RATE = 35.0
RETURN_S = 0.5  # After a gap in tracking, the root returns to the user within the time `RETURN_S` instead of jumping.
RETURN_SPEEDS = (3.0, 6.0)  # Minimum speeds of the root's return after a gap in tracking [m/s, rad/s].
# After a gap in tracking, the root jumps to the user if the distance exceeds `RETURN_M`, because a fast return would
# look like a leap of the hands.
RETURN_M = 3.0

# A contact begins when its log odds exceed `CONTACT_BEGINS`, and ends when they are below `CONTACT_ENDS`.
CONTACT_BEGINS, CONTACT_ENDS = 2.0, 1.0
# `ANSWER_COST` is added to `jump_cost`, because the projector network finds frames only approximately.
ANSWER_COST = 3.0
# The projector network runs only once if every feature weight is at least `SAME_WEIGHTS` times its training weight.
SAME_WEIGHTS = 0.999

LOOP_SPEEDS = (0.0, 1.2, 2.8)  # Desired speeds of the state machine's loops for standing, walking and running [m/s].
LOOP_BORDERS, LOOP_HYSTERESIS = (0.3, 2.0), 0.1  # Speeds at which another loop begins, and their hysteresis [m/s].
CROSS_FADE_S = 0.25  # Duration of the blend from one loop to the next.
# Weights of a loop's speed error [per m/s] and of its difference from the usual posture [per m] in the cost of a loop.
SPEED_COST, DISSIMILARITY_COST = 20.0, 50.0
SHORTEST_LOOP_S, LONGEST_LOOP_S = 0.7, 2.5  # Minimum and maximum duration of a loop.
LOOP_TURN = 0.15  # The turn rate of a loop adds to its cost only above `LOOP_TURN` [rad/s].
