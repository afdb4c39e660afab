"""Measure how far the elbows of motion capture are from the positions that the rule of pose/upper_body.py gives for the
same hands and shoulders.

`python tools/elbows.py FILE_OR_FOLDER…` prints per person, in cm: distance to the rule, distance to the arm's line.
"""

import sys

import numpy as np

from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import LEFT_HAND, LEFT_LOWER_ARM, LEFT_UPPER_ARM, RIGHT_UPPER_ARM, UPPER_CHEST
from mm_ros.maths import quat
from mm_ros.maths import rotations as rot
from mm_ros.motion.importing import load_clips
from mm_ros.pose.upper_body import elbow_direction

STRIDE = RIGHT_UPPER_ARM - LEFT_UPPER_ARM
EACH_S = 0.05


def deviation(clip: Clip) -> np.ndarray:
    """(samples of both arms, 2): distance of the elbow from that of the rule, and from the line between shoulder and
    wrist [m].
    """
    p, q = clip.globals()
    every = max(1, round(EACH_S * clip.rate))
    p, chest = p[::every], rot.inverse(q[::every, UPPER_CHEST])
    out = []
    for side in range(2):
        upper, lower, hand = (j + side * STRIDE for j in (LEFT_UPPER_ARM, LEFT_LOWER_ARM, LEFT_HAND))
        way = rot.rotate(chest, p[:, hand] - p[:, upper])
        elbow = rot.rotate(chest, p[:, lower] - p[:, upper])
        way /= np.linalg.norm(way, axis=-1, keepdims=True)
        off = elbow - (elbow * way).sum(-1, keepdims=True) * way
        height = np.linalg.norm(off, axis=-1)
        rule = np.array([elbow_direction(quat.unit(tuple(u), (0.0, 0.0, -1.0)), side) for u in way])
        out.append(np.stack([np.linalg.norm(off - height[:, None] * rule, axis=-1), height], -1))
    return np.concatenate(out)


if __name__ == "__main__":
    people: dict[str, list[np.ndarray]] = {}
    for each in load_clips(sys.argv[1:]):
        people.setdefault(each.subject, []).append(deviation(each))
    for name, parts in people.items():
        off_rule, off_line = 100 * np.concatenate(parts).mean(0)
        print(f"{name:>8}  {off_rule:5.1f} cm of {off_line:5.1f}")
