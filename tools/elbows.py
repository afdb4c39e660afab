"""Measure how far the elbows in motion-capture files are from the elbows that body/arm.py estimates for the same hands
and shoulders.

`python tools/elbows.py FILE_OR_FOLDER…` prints for each person the distance [cm] of the elbow from its estimate without
and with the direction of the fingers, and from the line between shoulder and wrist. Wrists in motion-capture files
often do not bend, so this tool bends them at random."""

import sys

import numpy as np

from mm_ros.body.arm import elbow_direction, elbow_for_fingers
from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import LEFT_HAND, LEFT_LOWER_ARM, LEFT_UPPER_ARM, RIGHT_UPPER_ARM, UPPER_CHEST
from mm_ros.maths import quat
from mm_ros.maths import rotations as rot
from mm_ros.motion.importing import load_clips

STRIDE = RIGHT_UPPER_ARM - LEFT_UPPER_ARM
EACH_S = 0.05
BENT_RAD = 0.3  # standard deviation of the random bend of a wrist per axis [rad]


def deviation(clip: Clip) -> np.ndarray:
    """Return an array (samples, 3) of distances of the elbow [m]: from its estimates without and with the direction of
    the fingers, and from the line between shoulder and wrist.
    """
    p, q = clip.globals()
    rng = np.random.default_rng(0)
    every = max(1, round(EACH_S * clip.rate))
    p, chest = p[::every], rot.inverse(q[::every, UPPER_CHEST])
    out = []
    for side in range(2):
        upper, lower, hand = (j + side * STRIDE for j in (LEFT_UPPER_ARM, LEFT_LOWER_ARM, LEFT_HAND))
        way = rot.rotate(chest, p[:, hand] - p[:, upper])
        elbow = rot.rotate(chest, p[:, lower] - p[:, upper])
        turned = rot.multiply(q[::every, hand], rot.exp(rng.normal(0.0, BENT_RAD, (len(p), 3))))
        fingers = rot.rotate(chest, rot.rotate(turned, np.broadcast_to((0.0, 1.0 - 2.0 * side, 0.0), (len(p), 3))))
        way /= np.linalg.norm(way, axis=-1, keepdims=True)
        off = elbow - (elbow * way).sum(-1, keepdims=True) * way
        height = np.linalg.norm(off, axis=-1)
        ways = [quat.unit(tuple(u), (0.0, 0.0, -1.0)) for u in way]
        alone = [elbow_direction(u, side) for u in ways]
        both = [elbow_for_fingers(e, u, tuple(f)) for e, u, f in zip(alone, ways, fingers, strict=True)]
        far = [np.linalg.norm(off - height[:, None] * np.array(rule), axis=-1) for rule in (alone, both)]
        out.append(np.stack([*far, height], -1))
    return np.concatenate(out)


if __name__ == "__main__":
    people: dict[str, list[np.ndarray]] = {}
    for each in load_clips(sys.argv[1:]):
        people.setdefault(each.subject, []).append(deviation(each))
    for name, parts in people.items():
        alone, with_fingers, off_line = 100 * np.concatenate(parts).mean(0)
        print(f"{name:>8}  {alone:5.1f}, with fingers {with_fingers:5.1f} cm of {off_line:5.1f}")
