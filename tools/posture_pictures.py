"""Draw docs/pictures/postures.png: a synthetic user squats, lunges, sits, kneels and lies, and a child stands.

In the upper row, low postures are not corrected and the child's avatar has an adult's height; the lower row shows the
present version. Headset and controllers are red. The pose before the correction is that of a standing person. Run
`python tools/posture_pictures.py`."""

from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.body.shape import room_joints
from mm_ros.body.skeleton import Skeleton, default_skeleton
from mm_ros.body.types import TRACKED, TrackerFrame, rest_pose
from mm_ros.maths import rotations as rot
from mm_ros.pose.low import make_low
from mm_ros.pose.postprocess import PostSettings, PostStage
from mm_ros.show.film import figure
from mm_ros.show.render import ACCENT, Shape, contact_sheet, follow, render, write_png
from mm_ros.tracking.calibration import HEADSET_IN_HEAD, from_skeleton

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "postures.png"
RATE, SECONDS = 60, 4.0
# Each row: head joint ahead of its start and above the floor [m], its pitch [rad], hands ahead of and above it [m].
POSTURES = (
    ((0.15, 1.15), 0.1, (0.4, -0.2)),
    ((0.40, 1.30), 0.0, (0.1, -0.6)),
    ((-0.20, 1.17), 0.1, (0.3, -0.5)),
    ((0.20, 0.90), 0.1, (0.2, -0.4)),
    ((-0.50, 0.18), -1.4, (0.4, -0.1)),
)
CHILD_M = 0.95  # height of the child's head joint when standing [m]


def dot(at: Any) -> Shape:
    n = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], np.float64)
    faces = [(a, b, c) if (a + b // 2 + c // 4) % 2 == 0 else (a, c, b) for a in (0, 1) for b in (2, 3) for c in (4, 5)]
    return Shape(at + 0.05 * n, n, np.array(faces, np.uint32), ACCENT)


def picture(skeleton: Skeleton, standing: float, posture: Any, low: bool) -> Any:
    """Draw one posture of a user who begins upright with the head joint at the height `standing` [m]."""
    (ahead, height), pitch, hands = posture
    stage = PostStage(PostSettings(), skeleton, from_skeleton(skeleton))
    if not low:
        stage._low.step = lambda *_: make_low()  # type: ignore[method-assign]
    for i in range(int(SECONDS * RATE)):
        u = min(i / RATE, 1.0)
        frame = TrackerFrame(int(i * 1e9 / RATE))
        turn = rot.exp(np.array([0.0, u * pitch, 0.0]))
        joint = np.array([u * ahead, 0.0, standing + u * (height - standing)])
        frame.rotations[0], frame.positions[0] = turn, joint + rot.rotate(turn, np.array(HEADSET_IN_HEAD))
        for role, side in ((1, 0.2), (2, -0.2)):
            frame.positions[role] = joint + np.array([u * hands[0], side, -0.5 * standing * (1 - u) + u * hands[1]])
            frame.rotations[role] = rot.from_yaw(-np.sign(side) * 1.4 * u)
        frame.state[:3] = TRACKED
        pose = stage.step(rest_pose(skeleton, frame.stamp_ns), frame)
    p, q = (a.astype(np.float64) for a in room_joints(pose))
    shapes = [figure(skeleton, p, q), *(dot(at) for at in frame.positions[:3])]
    return render(shapes, follow(float(p[1, 0]) + 0.1, 0.0, 4.0, -1.2, 0.9), 220, 250)


def main() -> None:
    adult = default_skeleton()
    child = adult.scaled(CHILD_M / adult.head_height)
    still = ((0.0, CHILD_M), 0.0, (0.15, -0.35))
    rows = []
    for low in (False, True):
        rows += [picture(adult, adult.head_height, posture, low) for posture in POSTURES]
        rows.append(picture(child if low else adult, CHILD_M, still, low))
    write_png(PICTURE, contact_sheet(rows, len(POSTURES) + 1))


if __name__ == "__main__":
    main()
