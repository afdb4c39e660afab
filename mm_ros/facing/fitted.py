"""Fitted values of the facing and of its correction by camera landmarks and body trackers.

The values were fitted to motion captures of the CMU database with simulated trackers (docs/evaluation.md) and with the
simulated camera of tracking/landmark_simulation.py (benchmarks/2026-11-fusion.md). The captures of the test persons,
subjects 08 and 35, were not used for the fit. `python tools/sensitivity.py mm_ros/facing/fitted.py CLIP… --row fused`
halves and doubles each value and prints how the figures of `mm_ros evaluate` change. The results are in
benchmarks/2026-11-constants.md.
"""

import numpy as np

from mm_ros.body.types import LEFT_FOOT_ROLE, RIGHT_FOOT_ROLE, WAIST_ROLE

# Fitted values for the prediction of the facing in orientation.py
QUICK_ERROR = 0.1  # facing error [rad] at which the half-life of the facing smoothing is halved
SIGMA_GROWTH_RATE = 0.5  # rate [rad/s] at which the standard deviation of the facing grows while the headset is lost

# Fitted values for the correction of the predicted facing in filter.py and fusion.py
OUTLIER = 1.5  # larger differences between measured and filtered facing count as this many standard deviations
SMALLEST_SIGMA = 0.09  # minimum standard deviation of the predicted facing [rad]; networks underestimate their error
MAX_STEP = 0.06  # maximum change of the correction of the facing from one frame to the next [rad]
CORRELATED = 0.8  # share of the error of the facing in a camera picture that is the same in the next pictures
BIAS_LASTS_S = 0.8  # correlation time of the error of the facing that the camera's landmarks show [s]
# The strain is the squared difference between the facings of picture and filter, divided by its expected variance.
STRAIN_HALFLIFE_S = 8.0  # half-life of the mean strain over the pictures [s]
WORST_STRAIN = 12.0  # limit of the strain (squared facing difference / variance) with which a picture enters the mean

# body_trackers.py: standard deviation [rad] and correlation time [s] of the facing error of each body tracker
TRACKER_SIGMA: dict[int, float] = {WAIST_ROLE: 0.035, LEFT_FOOT_ROLE: 0.30, RIGHT_FOOT_ROLE: 0.30}
TRACKER_LASTS_S: dict[int, float] = {WAIST_ROLE: 0.02, LEFT_FOOT_ROLE: 0.5, RIGHT_FOOT_ROLE: 0.5}
MOUNTING_LEARNED_FOR_S = 60.0  # time constant [s] with which the rotation of a body tracker on the body is learned

# Fitted values for the noise of body landmarks in camera pictures (camera/alignment.py and camera/camera.py)
HIDDEN = 0.3  # landmarks are used only if their visibility, from 0 to 1, exceeds this value
TRUNK_NOISE = 0.6  # ratio of the noise of hips and shoulders to the measured noise of nose and wrists
TWIST = 0.05  # standard deviation of the angle between hips and shoulders of a moving person [rad]
NOISE_LASTS_S = 0.4  # time [s] after which the position error of a landmark counts as a new, independent error
TURN_LASTS_S = 2.0  # time [s] after which an error that turns all landmarks together counts as a new, independent error
NOISE_HALFLIFE_S = 6.0  # half-life of the average from which the noise of the body landmarks is estimated [s]
NOISE_PRIOR_S = 1.0  # the start value `NOISE_START` counts as much as landmarks observed for this time [s]
# standard deviation of a landmark [m] along the line of sight, across it and in height: start value, minimum, maximum
NOISE_START, NOISE_FLOOR, NOISE_CEILING = (0.08, 0.04, 0.04), (0.015, 0.008, 0.008), (0.20, 0.12, 0.12)
# standard deviation of the yaw error that all landmarks of a picture share [rad]: start value, minimum, maximum
TURN_START, TURN_FLOOR, TURN_CEILING = 0.08, 0.02, 0.4
# factors for the squared residuals of nose and wrists (depth, lateral, height), which the fit of yaw and shift reduces
LOST_TO_FIT = np.array([2.0, 2.0, 1.5])

# Limits above which camera/camera.py rejects a picture, reads it as flipped, or treats the camera as moved
MISFIT = 5.0  # pictures are rejected if the squared distance of landmarks from trackers is this many times its mean
TURNED = 16.0  # a picture is rejected if the square of the camera's apparent turn is this many times its variance
# maximum squared distance of nose and wrists from the trackers / from their mean, at which the person is the user
UNEXPLAINED = 0.2
FLIP_PENALTY = 6.0  # additional cost of the choice that a picture is flipped: −2 log p for a probability p of 1/20
FAR_OFF = 9.0  # limit of the cost that landmarks, as received or flipped, get for a facing far from the predicted one
CLEAR = 3.0  # minimum cost advantage over the landmarks as received, at which a picture counts as flipped
FLIP_AT_MOST_S = 0.5  # flipped pictures are used only until pictures have been rejected or flipped for this time [s]
UNSURE = 0.2  # maximum standard deviation of the camera's yaw [rad] at which pictures measure the facing
LOST_AFTER_S = 3.0  # the camera counts as moved if all pictures were rejected or flipped for this time [s]
STEEPEST = 0.9  # maximum pitch of the camera, upwards or downwards [rad]

# Fitted values for camera/place.py, which estimates the camera's yaw from directions to the nose (resection).
# SURELY_PLACED is the maximum standard deviation of the camera's yaw by resection [rad] at which the hands need not
# confirm that the person in the picture is the user.
SURELY_PLACED = 0.06
# GUESSED_M: assumed distance of the user from the camera [m]; GUESS_COUNTS_S: duration of pictures of equal weight [s]
GUESSED_M, GUESS_COUNTS_S = 3.0, 0.02
# The person in a picture is not the user if the distance from the user's nose to the ray from the camera to the
# person's nose exceeds both ELSEWHERE_M [m] and ELSEWHERE times its usual value.
ELSEWHERE_M, ELSEWHERE = 0.5, 4.0
PLACE_NEEDED_S = 1.0  # the camera yaw by resection is used only after the user was seen for this time [s]
SCATTERED_M = 0.4  # maximum usual distance [m] of the user's nose from rays to noses, if pictures show only the user
MISS_M = 0.05  # standard deviation [m] that adds to the observed one of the distance from nose to ray (as variances)
MISS_LASTS_S = 1.0  # correlation time of the distance from the user's nose to the ray in which the picture shows it [s]
FIELD_OF_VIEW_ERROR = 0.025  # error of the resected camera yaw by lens distortion and an inexact field of view [rad]

# Fitted values for learning the offsets of nose and wrists from the devices in camera/offsets.py
OFFSETS_SIGMA_M = 0.04  # standard deviation of the error of the calibrated offsets of nose and wrists [m]
SIZE_SIGMA = 0.2  # standard deviation of the relative error of the body size that the pose estimator assumes
OFFSETS_HALFLIFE_S = 60.0  # half-life of the weight of old pictures in the learned offsets of nose and wrists [s]
OFFSETS_LARGEST_M = 0.15  # maximum of each coordinate of a learned offset of nose or wrist [m]

# Fitted values for the estimate of the landmarks' latency in camera/timing.py
SURELY_M2 = 1e-5  # variance [m²] that is added to that of differences between lengths by camera and by trackers
# half-lives [s] of the mean difference between camera and trackers at each delay, and of the variance around the mean
MEAN_HALFLIFE_S, SPREAD_HALFLIFE_S = 2.0, 12.0
LATENCY_NEEDED_S = 3.0  # the latency of landmarks is estimated only after landmarks were received for this time [s]
CONTRAST = 0.8  # the latency is estimated only if the cost of the longest delay exceeds the lowest cost by this value
