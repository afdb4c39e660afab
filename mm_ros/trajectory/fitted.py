"""Fitted values of the prediction of the desired trajectory.

The values were fitted to motion captures of the CMU database with simulated trackers (docs/evaluation.md). The captures
of the test persons, subjects 08 and 35, were not used for the fit. `python tools/sensitivity.py
mm_ros/trajectory/fitted.py CLIP…` halves and doubles each value and prints how the figures of `mm_ros evaluate` change
(result: benchmarks/2026-11-constants.md).
"""

# from_trackers.py
WAIST_HALFLIFE_S = 0.1  # half-life of the blend from hips estimated by the head to hips measured by the waist tracker
# expected error of a prediction at constant velocity, per second of prediction, while the velocity is steady [m/s]
STEADY_M_PER_S = 0.2
# expected error of the step network's facing [rad] at which the network has half of the weight in the predicted facing
CERTAIN_RAD = 0.5
LARGEST_TURN = 3.0  # faster predicted turns of the user's body are limited to this turn rate [rad/s]

# lean.py
UPRIGHT = 0.011  # distance of an upright user's hips behind the head, as a share of the standing head height
LEAN_HALFLIFE_S = 0.15  # half-life of the smoothed lean, which removes the bobbing of the head in a walk
# half-life of the averages of turn rate and velocities; averaging twice removes the sway of the head with the steps
LEARNING_HALFLIFE_S = 0.2
# minimum bend at which a correction of the bend is learned, as a share of the standing head height
LEARNS_BENT = 0.05
# At smaller bends, the learned correction is gradually forgotten, because the user may bend differently the next time.
UPRIGHT_AGAIN_BELOW = 0.03
# minimum forward speed [m/s] and turn rate [rad/s] at which a correction of the bend is learned
LEARNS_SPEED, LEARNS_TURN = 0.3, 0.3
LEARNS_TURN_AT_MOST = 3.0  # The correction of the bend is learned as if faster turns had this rate [rad/s].
DOUBT = 0.06  # amount of data [m² rad²/s] at which half of the learned correction of the bend is applied
# half-lives [s] with which old data lose their weight in the learned correction: for a bent user, for an upright user
EVIDENCE_HALFLIFE_S, UPRIGHT_HALFLIFE_S = 60.0, 10.0
FOLLOW_HALFLIFE_S = 1.0  # half-life [s] with which the applied correction of the bend follows the learned one
LARGEST_CHANGE = 0.8  # maximum ratio of the learned correction to the estimated bend of the user
