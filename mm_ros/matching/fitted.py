"""Fitted values of motion matching.

The values were fitted to CMU motion with simulated trackers (docs/evaluation.md), without the subjects 08 and 35. Those
of the state machine and of the learned engine were fitted to the procedural database. `python tools/sensitivity.py
mm_ros/matching/fitted.py CLIP…` halves and doubles each value and prints how the figures of `mm_ros evaluate` change;
benchmarks/2026-11-constants.md has the result.
"""

# matcher.py
# Addition to the factor on jump_cost while the user's feet are certain, because the weight of the feet raises all costs
FEET_JUMP_COST = 16.0
# m, on the database's skeleton; if an estimated ankle is higher than this, kicks and lifted knees are searched, too
LEG_LIFTED = 0.3
# Share of the standing height; if the head is lower than this, motion of lying people is searched, too
LYING_RATIO = 0.55
BAND_GRACE_S = 0.7  # motion that leaves its height band may continue for this time, about one step of a walk

# engines/source.py
BAND_LEEWAY = 0.03  # tolerance of the head height, as a share of the standing head height
BAND_EDGE = 0.01  # margin inside a band's borders, in the same unit: band tags follow the height smoothed over 0.5 s

# tempo.py
SLOWEST_TEMPO, SLOWEST_TURN = 0.2, 0.4  # m/s, rad/s: slower motion cannot catch up at any tempo
CATCH_UP_S = 0.4  # s; time in which a changed tempo shall close the distance to the user
TEMPO_HALFLIFE_S = 0.1  # half-life of the smoothed tempo

# body_facing.py
TURN_HALFLIFE_S = 0.06  # half-life of the turn of the hips, because its goal leaps when the played motion jumps

# root_control.py
SOFT_WALL = 0.6  # share of the accuracy limit at which the pull begins to grow
WALL_RATE = 35.0  # 1/s, rate of the pull at the limit: follows a user at 1.4 m/s with an error well below 0.1 m.
# After a gap in tracking, the root returns to the user within this time instead of jumping
RETURN_S = 0.5
RETURN_SPEEDS = (3.0, 6.0)  # m/s, rad/s; minimum speeds of this return.
# If the root is farther away, it is placed at the user at once: a fast return would look like a leap of the hands
RETURN_M = 3.0

# engines/learned.py
CONTACT_BEGINS, CONTACT_ENDS = 2.0, 1.0  # predicted log odds at which a contact begins and ends
ANSWER_COST = 3.0  # cost reduction required on top of `jump_cost`, because the projector's answers are approximate.
# The projector is run only once if every weight is at least this share of its weight in the training
SAME_WEIGHTS = 0.999

# engines/state_machine.py
LOOP_SPEEDS = (0.0, 1.2, 2.8)  # m/s, desired speed of each loop
LOOP_BORDERS, LOOP_HYSTERESIS = (0.3, 2.0), 0.1  # m/s; speeds at which the state changes, and their tolerance
CROSS_FADE_S = 0.25  # duration of the blend from one loop to the next.
# Weights of a difference of speed [per m/s] and of posture [per m] that are added to squared normalized features
SPEED_COST, DISSIMILARITY_COST = 20.0, 50.0
SHORTEST_LOOP_S, LONGEST_LOOP_S = 0.7, 2.5  # duration of a loop
LOOP_TURN = 0.15  # rad/s; up to this mean turn rate, a loop has no additional cost
