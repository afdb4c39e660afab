"""Fitted values of the desired trajectory.

The values were fitted to CMU motion with simulated trackers (docs/evaluation.md), without the subjects 08 and 35.
`python tools/sensitivity.py mm_ros/trajectory/fitted.py CLIP…` halves and doubles each value and prints how the figures
of `mm_ros evaluate` change; benchmarks/2026-11-constants.md has the result.
"""

# from_trackers.py
WAIST_HALFLIFE_S = 0.1  # half-life of the blend to and from a waist tracker
STEADY_M_PER_S = 0.2  # expected error of constant velocity per second of prediction, when the velocity is steady
CERTAIN_RAD = 0.5  # if the expected error of the network's facing has this value, the network has a share of one half
LARGEST_TURN = 3.0  # rad/s; the prediction clamps faster turns

# lean.py
UPRIGHT = 0.011  # distance of an upright user's hips behind the head, as a share of the standing head height
LEAN_HALFLIFE_S = 0.15  # half-life that removes the bobbing of a walking head, which is not leaning.
# half-life of the averages of turn rate and velocities; the average is applied twice, to remove the sway of the steps
LEARNING_HALFLIFE_S = 0.2
LEARNS_BENT = 0.05  # the estimate is updated while the estimated bend, as a share of the standing height, is above this
# the estimate is forgotten while that bend is below this, because the user may bend differently next time
UPRIGHT_AGAIN_BELOW = 0.03
# m/s forward, rad/s; slower motion does not show how far the hips are behind the head
LEARNS_SPEED, LEARNS_TURN = 0.3, 0.3
LEARNS_TURN_AT_MOST = 3.0  # rad/s; faster turns are clamped
DOUBT = 0.06  # m² rad²/s; an estimate with this amount of data has the same weight as the estimated bend.
# half-lives of the evidence, and of its decay while the user is upright
EVIDENCE_HALFLIFE_S, UPRIGHT_HALFLIFE_S = 60.0, 10.0
FOLLOW_HALFLIFE_S = 1.0  # half-life with which the correction follows the evidence
LARGEST_CHANGE = 0.8  # maximum correction, as a share of the estimated bend
