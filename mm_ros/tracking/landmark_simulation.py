"""Simulates the landmarks that a pose estimator finds in pictures of a body, for tests and evaluation.

Exact landmarks are computed from the joints of the body, in the axes of a simulated camera; then the errors of real
pose estimators are added. The axes of the landmarks are along the ray to the person instead of the axes of the camera,
and the depth is too small. The simulated landmarks have errors that last for some time, mostly along the line of sight.
Hands may be hidden, sides or front and back may be swapped, pictures may be lost, and landmarks arrive late.
docs/fusion.md gives the sources of the numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.body import skeleton as sk
from mm_ros.body.clip import Clip
from mm_ros.body.landmarks import (
    COUNT,
    LEFT_HIP,
    LEFT_WRIST,
    RIGHT_HIP,
    RIGHT_WRIST,
    SWAPPED,
    Landmarks,
    Sighting,
)
from mm_ros.body.types import F32, F64, HEAD_ROLE
from mm_ros.maths import rotations as rot
from mm_ros.tracking.simulation import TrackerTrack, facing, head_axes, resample

# Pairs of the index of a landmark and the joint of the body at which this landmark is simulated.
CARRIERS: tuple[tuple[int, int], ...] = (
    (11, sk.LEFT_UPPER_ARM), (12, sk.RIGHT_UPPER_ARM), (13, sk.LEFT_LOWER_ARM), (14, sk.RIGHT_LOWER_ARM),
    (15, sk.LEFT_HAND), (16, sk.RIGHT_HAND), (23, sk.LEFT_UPPER_LEG), (24, sk.RIGHT_UPPER_LEG),
    (25, sk.LEFT_LOWER_LEG), (26, sk.RIGHT_LOWER_LEG), (27, sk.LEFT_FOOT), (28, sk.RIGHT_FOOT),
    (29, sk.LEFT_FOOT), (30, sk.RIGHT_FOOT), (31, sk.LEFT_TOES), (32, sk.RIGHT_TOES),
    (17, sk.LEFT_HAND), (18, sk.RIGHT_HAND), (19, sk.LEFT_HAND), (20, sk.RIGHT_HAND), (21, sk.LEFT_HAND),
    (22, sk.RIGHT_HAND),
)  # fmt: skip
# positions of the landmarks of nose, eyes, ears and mouth relative to the head joint, in the axes of the head [m]
FACE = np.array(
    [(0.11, 0.0, 0.03), (0.09, 0.02, 0.07), (0.09, 0.03, 0.07), (0.08, 0.045, 0.07), (0.09, -0.02, 0.07),
     (0.09, -0.03, 0.07), (0.08, -0.045, 0.07), (0.0, 0.075, 0.05), (0.0, -0.075, 0.05), (0.09, 0.025, -0.01),
     (0.09, -0.025, -0.01)]
)  # fmt: skip
LIMBS = np.array([*range(15, 23), *range(25, 33)])
TRUNK_RADIUS = 0.16  # radius of the simulated trunk, which hides hands behind it from the camera [m]
HIDDEN_NOISE = 3.0  # factor on the noise of a landmark that is hidden from the camera
RANGES = {  # allowed ranges of the options of the simulation; the range of other options is 0 to 1000
    "rate": (1.0, 1000.0), "field_of_view": (0.2, 2.8), "aspect": (0.1, 10.0), "height": (-100.0, 100.0),
    "pitch": (-1.5, 1.5), "side": (-7.0, 7.0), "nearest": (0.1, 100.0), "latency_s": (0.0, 10.0),
    "unreported_latency_s": (0.0, 10.0), "lasts_s": (0.01, 100.0), "turn_lasts_s": (0.01, 100.0),
    "flip_lasts_s": (0.01, 100.0),
    "lost": (0.0, 1.0), "turn_noise": (0.0, 3.2), "flips": (0.0, 1.0), "seed": (0, 2**53),
}  # fmt: skip


@dataclass(frozen=True)
class LandmarkSimulation:
    """Options of the simulated camera and pose estimator; the default errors are those of common pose estimators."""

    rate: float = 30.0
    field_of_view: float = 1.05  # rad, horizontal
    aspect: float = 16 / 9
    height: float = 1.2  # m, of the camera
    pitch: float = 0.0  # rad; > 0 looks down
    side: float = 0.6  # direction in the room from the middle of the person's path to the camera [rad]
    # minimum distance of the camera from the person's path [m]; motion over a larger area increases the distance
    nearest: float = 2.2
    latency_s: float = 0.10  # time from a camera picture to the arrival of its landmarks [s]
    unreported_latency_s: float = 0.05  # part of the latency [s] by which the stamp is later than the picture
    noise_m: float = 0.015  # standard deviation of a landmark's position perpendicular to the line of sight [m]
    depth_noise_m: float = 0.035  # standard deviation of a landmark's position along the line of sight [m]
    hand_noise: float = 2.5  # factor on the noise of the landmarks of wrists, hands, knees and feet
    lasts_s: float = 0.4  # correlation time of the noise of landmark positions [s]
    turn_noise: float = 0.09  # standard deviation of the error that turns all landmarks about the vertical [rad]
    turn_lasts_s: float = 1.0  # correlation time of the error that turns all landmarks about the vertical [s]
    flattened: float = 0.9  # factor on landmark distances along the line of sight, which pose estimators underestimate
    size: float = 0.97  # size of the person as the landmarks show it / true size
    lost: float = 0.03  # share of camera pictures in which no person is found
    flips: float = 0.01  # share of camera pictures whose landmarks have left and right, or front and back, swapped
    flip_lasts_s: float = 0.25
    # true if the landmarks are in the axes of the ray to the person, false if they are in the axes of the camera
    perspective: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            low, high = RANGES.get(name, (0.0, 1000.0))
            if not low <= value <= high:  # NaN fails too
                raise MmRosError(f"simulated camera: {name}: expected {low:g} to {high:g}, came {value:g}")


COMMON = LandmarkSimulation()


def simulate_landmarks(
    clip: Clip, options: LandmarkSimulation = COMMON, start_ns: int = 0, trackers: TrackerTrack | None = None
) -> list[Sighting]:
    """Simulate the landmarks of a clip, and return them in the order of their arrival.

    `start_ns` is the time stamp of the clip's first frame. If `trackers` were simulated for the same clip and start
    time, the face turns with their headset, which may look around.
    """
    p, q = (a.astype(np.float64) for a in clip.globals())
    times = np.arange(int((len(p) - 1) / clip.rate * options.rate) + 1) / options.rate
    axes = head_axes(q[:, sk.HEAD], facing(p[:, sk.LEFT_UPPER_LEG], p[:, sk.RIGHT_UPPER_LEG]))
    p, q = resample(p, q, clip.rate, times)
    head = rot.multiply(q[:, sk.HEAD], axes)
    if trackers is not None:
        seconds = (trackers.stamps_ns - start_ns) * 1e-9
        head = trackers.rotations[np.searchsorted(seconds, times).clip(0, len(seconds) - 1), HEAD_ROLE]
    room = body_landmarks(p, head)
    rng = np.random.default_rng([options.seed, 7])
    at, yaw = place_camera(p[:, sk.HIPS], options)
    camera = rot.multiply(rot.from_yaw(yaw), rot.exp(np.array([0.0, options.pitch, 0.0])))
    seen = rot.rotate(rot.inverse(camera), room - at)  # true landmarks (F, 33, 3) in camera axes
    image = project(seen, options)
    visibility = _visibility(seen, image, p, at)
    estimated = _estimated(seen, visibility, options, rng)
    turn = _flips(estimated, visibility, len(times), options, rng)
    lost = rng.random(len(times)) < options.lost
    image = image + _image_noise(seen, image, options, rng)
    out = []
    for i in np.flatnonzero(~lost):
        taken = start_ns + round(times[i] * 1e9)
        vis = visibility[i][SWAPPED] if turn[i] else visibility[i]
        confidence = float(np.mean(visibility[i, [LEFT_HIP, RIGHT_HIP, 11, 12]]))
        landmarks = Landmarks(
            taken + round(options.unreported_latency_s * 1e9), estimated[i], vis, image[i], confidence, 0, "simulated"
        )
        out.append(Sighting(taken + round(max(options.latency_s, options.unreported_latency_s) * 1e9), landmarks))
    return out


def body_landmarks(positions: F64, head_rotations: F64) -> F64:
    """Return landmarks (F, 33, 3) in the room for a body with joint positions (F, J, 3) and head rotations (F, 4)."""
    out = np.zeros((len(positions), COUNT, 3))
    out[:, : len(FACE)] = positions[:, sk.HEAD, None] + rot.rotate(
        head_rotations[:, None], np.broadcast_to(FACE, (len(positions), *FACE.shape))
    )
    for landmark, joint in CARRIERS:
        out[:, landmark] = positions[:, joint]
    return out


def place_camera(hips: F64, options: LandmarkSimulation) -> tuple[F64, float]:
    """Return the position (3,) and the yaw [rad] of a camera that sees the person for 95 % of the time."""
    middle = (np.percentile(hips[:, :2], 5, axis=0) + np.percentile(hips[:, :2], 95, axis=0)) / 2
    from_middle = np.linalg.norm(hips[:, :2] - middle, axis=1)
    reach = float(np.percentile(from_middle, 95))
    distance = max(options.nearest + reach, (reach + 0.4) / math.tan(options.field_of_view / 2) + 0.3 * reach)
    away = np.array([math.cos(options.side), math.sin(options.side)])
    at = np.array([*(middle + distance * away), options.height])
    return at, math.atan2(-away[1], -away[0])


def project(seen: F64, options: LandmarkSimulation) -> F32:
    """Project points in camera axes to positions in the picture, which are 0 … 1 from the left and from the top."""
    half = math.tan(options.field_of_view / 2)
    depth = np.maximum(seen[..., 0], 0.05)
    x = 0.5 - seen[..., 1] / depth / (2 * half)
    y = 0.5 - seen[..., 2] / depth / (2 * half) * options.aspect
    return np.stack([x, y], -1).astype(np.float32)


def _visibility(seen: F64, image: F32, joints: F64, camera: F64) -> F32:
    inside = ((image > 0) & (image < 1)).all(-1) & (seen[..., 0] > 0.3)
    out = np.where(inside, 0.98, 0.1)
    hips = joints[:, sk.HIPS, :2] - camera[:2]
    far = np.linalg.norm(hips, axis=1)
    sight = hips / np.maximum(far, 1e-6)[:, None]
    for wrist, joint in ((LEFT_WRIST, sk.LEFT_HAND), (RIGHT_WRIST, sk.RIGHT_HAND)):
        hand = joints[:, joint, :2] - camera[:2]
        along = (hand * sight).sum(1)
        lateral = np.abs(hand[:, 0] * sight[:, 1] - hand[:, 1] * sight[:, 0])
        low = joints[:, joint, 2] < joints[:, sk.NECK, 2]
        out[(along > far) & (lateral < TRUNK_RADIUS) & low, wrist] = 0.25
    return out.astype(np.float32)


def _estimated(seen: F64, visibility: F32, o: LandmarkSimulation, rng: np.random.Generator) -> F64:
    middle = seen[:, [LEFT_HIP, RIGHT_HIP]].mean(1)
    ray = np.arctan2(middle[:, 1], middle[:, 0])
    to_ray = rot.from_yaw(-ray)[:, None]
    out = np.array(rot.rotate(to_ray, seen - middle[:, None]))
    out[..., 0] *= o.flattened
    out *= o.size
    turn = wander(len(out), 1, o.turn_lasts_s * o.rate, rng)[:, 0] * o.turn_noise
    out = rot.rotate(rot.from_yaw(turn)[:, None], out)
    worse = np.where(visibility < 0.5, HIDDEN_NOISE, 1.0)[..., None]
    worse[:, LIMBS] *= o.hand_noise
    size = np.array([o.depth_noise_m, o.noise_m, o.noise_m])
    slow = wander(len(out), COUNT * 3, o.lasts_s * o.rate, rng).reshape(len(out), COUNT, 3)
    out += worse * size * (0.9 * slow + 0.44 * rng.normal(size=out.shape))
    return np.asarray(out if o.perspective else rot.rotate(rot.inverse(to_ray), out))


def _image_noise(seen: F64, image: F32, o: LandmarkSimulation, rng: np.random.Generator) -> F32:
    wide = 2 * math.tan(o.field_of_view / 2) * np.maximum(seen[..., :1], 0.05)
    slow = wander(len(image), COUNT * 2, o.lasts_s * o.rate, rng).reshape(image.shape)
    return np.asarray(o.noise_m * slow / wide * (1.0, o.aspect), np.float32)


def _flips(points: F64, visibility: F32, n: int, o: LandmarkSimulation, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Swap left and right in some pictures, and also negate the depth in half of them. Return for each of n pictures
    whether left and right are swapped."""
    flipped = np.zeros(n, np.bool_)
    last = max(o.flip_lasts_s * o.rate, 1.0)
    starts = np.flatnonzero(rng.random(n) < o.flips / last / max(1 - o.flips, 0.1))
    for first in starts:
        stop = min(first + 1 + int(rng.exponential(last)), n)
        if flipped[first:stop].any():
            continue
        flipped[first:stop] = True
        points[first:stop] = points[first:stop, SWAPPED]
        if rng.random() < 0.5:
            points[first:stop, :, 0] *= -1
    return flipped


def wander(n: int, columns: int, lasts: float, rng: np.random.Generator) -> F64:
    """Return random noise (n, columns) with variance 1 and a correlation time of `lasts` rows."""
    keep = math.exp(-1 / max(lasts, 1e-3))
    fresh = rng.normal(size=(n, columns)) * math.sqrt(1 - keep * keep)
    out = np.empty((n, columns))
    out[0] = rng.normal(size=columns)
    for i in range(1, n):
        out[i] = keep * out[i - 1] + fresh[i]
    return out
