"""Fitted values of the facing and of its correction by camera landmarks and body trackers.

The values were fitted to CMU motion (docs/evaluation.md), without the subjects 08 and 35, with simulated trackers and
the simulated camera of tracking/landmark_simulation.py (benchmarks/2026-11-fusion.md). `python tools/sensitivity.py
mm_ros/facing/fitted.py CLIP… --row fused` halves and doubles each value and prints how the figures of `mm_ros evaluate`
change; benchmarks/2026-11-constants.md has the result.
"""

import numpy as np

from mm_ros.body.types import LEFT_FOOT_ROLE, RIGHT_FOOT_ROLE, WAIST_ROLE

# orientation.py
QUICK_ERROR = 0.1  # rad; at this error the half-life is divided by 2, at twice this error by 5
SIGMA_GROWTH_RATE = 0.5  # rad/s; growth of sigma while the headset is lost

# filter.py, fusion.py
OUTLIER = 1.5  # limit of a difference, in standard deviations
SMALLEST_SIGMA = 0.09  # rad; networks underestimate their own error
MAX_STEP = 0.06  # maximum change of the correction per frame [rad], also after a gap
CORRELATED = 0.8  # share of a picture's error that the next pictures have, too
BIAS_LASTS_S = 0.8  # correlation time of the pose estimator's yaw bias.
# half-life of the mean ratio of squared difference between picture and filter to its expected variance
STRAIN_HALFLIFE_S = 8.0
# limit of the ratio of one picture, so that a single picture does not raise the mean ratio for long
WORST_STRAIN = 12.0

# body_trackers.py
TRACKER_SIGMA: dict[int, float] = {WAIST_ROLE: 0.035, LEFT_FOOT_ROLE: 0.30, RIGHT_FOOT_ROLE: 0.30}  # rad
# Correlation time of the errors of these trackers
TRACKER_LASTS_S: dict[int, float] = {WAIST_ROLE: 0.02, LEFT_FOOT_ROLE: 0.5, RIGHT_FOOT_ROLE: 0.5}
MOUNTING_LEARNED_FOR_S = 60.0  # maximum time over which the mounting is averaged

# camera/alignment.py, camera/camera.py: noise of the landmarks
HIDDEN = 0.3  # landmarks with a lower visibility are ignored
TRUNK_NOISE = 0.6  # noise of hips and shoulders relative to that of nose and wrists, which is measured
TWIST = 0.05  # rad; standard deviation between the facings of hips and shoulders of a moving person
NOISE_LASTS_S = 0.4  # correlation time of landmark errors
TURN_LASTS_S = 2.0  # s; twice the correlation time of the yaw error of the whole body
NOISE_HALFLIFE_S = 6.0  # half-life of the measured noise
NOISE_PRIOR_S = 1.0  # weight of NOISE_START, as seconds of observation
NOISE_START = (0.08, 0.04, 0.04)  # m: along the line of sight, across it, in height.
# Limits of the measured noise [m]
NOISE_FLOOR, NOISE_CEILING = (0.015, 0.008, 0.008), (0.20, 0.12, 0.12)
TURN_START, TURN_FLOOR, TURN_CEILING = 0.08, 0.02, 0.4  # rad; yaw error of the whole body in a picture
LOST_TO_FIT = np.array([2.0, 2.0, 1.5])  # corrects squared residuals for the degrees of freedom of the fit

# camera/camera.py: pictures that are rejected
MISFIT = 5.0  # a picture whose squared residual exceeds the usual one by this factor does not show the user
TURNED = 16.0  # a picture whose squared yaw difference exceeds the usual one by this factor is rejected
UNEXPLAINED = 0.2  # maximum residual of the user's landmarks, as a share of the spread of the trackers
FLIP_PENALTY = 6.0  # −2 log p of a flip with p = 1/20
FAR_OFF = 9.0  # maximum cost of a facing that is far from the expected one
CLEAR = 3.0  # the cost of a flipped reading must be lower than that of the plain reading by at least this
FLIP_AT_MOST_S = 0.5  # longest time for which pictures are read as flipped
UNSURE = 0.2  # rad; above this sigma of the camera's yaw, no facing is measured
LOST_AFTER_S = 3.0  # when pictures have not fitted for this time, the camera is taken to have moved
STEEPEST = 0.9  # rad; limit of the camera's pitch

# camera/place.py
SURELY_PLACED = 0.06  # rad; below this sigma of the yaw by resection, the hands need not confirm it
GUESSED_M, GUESS_COUNTS_S = 3.0, 0.02  # prior distance of the user from the camera [m], and its weight [s]
ELSEWHERE_M = 0.5  # m; a person with a larger lateral miss is not the user
ELSEWHERE = 4.0  # factor on the usual miss; a person with a larger lateral miss is not the user
PLACE_NEEDED_S = 1.0  # time of observation before there is a result
SCATTERED_M = 0.4  # m; if the usual miss is larger, the pictures do not show only the user
MISS_M = 0.05  # m; lower limit of the usual lateral miss
MISS_LASTS_S = 1.0  # correlation time of the lateral miss
FIELD_OF_VIEW_ERROR = 0.025  # rad; yaw error by lens distortion and an inexact field of view

# camera/offsets.py
OFFSETS_SIGMA_M = 0.04  # standard deviation of the error of a calibration's offsets
SIZE_SIGMA = 0.2  # standard deviation of the body's relative size error
OFFSETS_HALFLIFE_S = 60.0  # half-life with which old observations lose weight
OFFSETS_LARGEST_M = 0.15  # limit of a learned offset

# camera/timing.py
SURELY_M2 = 1e-5  # lower limit of the variance of a difference between signals.
# half-lives of the mean differences of the signals, and of the variances of these differences
MEAN_HALFLIFE_S, SPREAD_HALFLIFE_S = 2.0, 12.0
LATENCY_NEEDED_S = 3.0  # time of landmarks before a latency is estimated
CONTRAST = 0.8  # the cost of the longest delay must exceed that of the best delay by at least this
