"""Draw docs/pictures/pose-*.png: a walk, a turn on the spot, a crouch and a reach, with the avatar in colour and the
true body in the colour of sand.

The users are clips of the CMU motion data; the database contains all other subjects. In the picture of the reach, the
right controller of a standing user moves up, to the side and down. The picture stooped-copy.png shows a walk and its
copy with a bent back. `python tools/pose_pictures.py [walk turn crouch reach copy]`"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from mm_ros.avatar import Avatar
from mm_ros.body.clip import Clip
from mm_ros.body.types import RIGHT_HAND_ROLE
from mm_ros.evaluation import measure
from mm_ros.evaluation.replay_chain import run_chain
from mm_ros.evaluation.run import truth_of
from mm_ros.maths import rotations as rot
from mm_ros.motion.build import build_database
from mm_ros.motion.importing import load_clips
from mm_ros.motion.shared_data import dataset
from mm_ros.motion.stoop import stooped
from mm_ros.show.film import figure
from mm_ros.show.render import ACCENT, GHOST, Shape, contact_sheet, follow, render, write_png
from mm_ros.tracking.calibration import from_skeleton
from mm_ros.tracking.simulation import TrackerTrack, simulate_clip

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
COLUMNS, WIDTH, HEIGHT = 8, 170, 250
# Each row describes a picture: name, clip, start and end time in the clip [s], direction of the camera [rad].
SHEETS = (
    ("walk", "35_01", 0.6, 2.0, -1.3),
    ("turn", "69_16", 1.6, 4.4, -0.6),
    ("crouch", "136_09", 2.0, 4.8, 0.27),
    ("reach", "82_09", 0.4, 4.6, -0.7),
)


def reaching(track: TrackerTrack) -> TrackerTrack:
    """Return a user who stands still, except for the right hand, which moves up, to the side and down to the knee."""
    start, n = track.frame(30), len(track)
    # maps a time [s] to the right hand's position, relative to the point of the floor below the headset: distances to
    # the front, to the left and up, as shares of the headset's height
    at = {0.0: (0.08, -0.14, 0.6), 1.5: (0.16, -0.16, 1.06), 2.8: (0.1, -0.38, 0.8), 4.2: (0.22, -0.1, 0.52)}
    forward = rot.from_yaw(rot.yaw_of(start.rotations[0]))
    way = np.stack([np.interp(np.arange(n) / 90, list(at), [p[k] for p in at.values()]) for k in range(3)], -1)
    way *= start.positions[0, 2]
    smooth = np.hanning(55) / np.hanning(55).sum()
    way = np.stack([np.convolve(np.pad(way[:, k], 27, mode="edge"), smooth, "valid") for k in range(3)], -1)
    positions = np.tile(start.positions, (n, 1, 1))
    foot = start.positions[0] * [1, 1, 0]
    positions[:, RIGHT_HAND_ROLE] = foot + rot.rotate(forward, way)
    rotations = np.tile(start.rotations, (n, 1, 1))
    rotations[:, RIGHT_HAND_ROLE] = rot.multiply(forward, rot.from_yaw(np.pi / 2))
    moving, still = np.gradient(positions, 1 / 90, axis=0), np.zeros_like(positions)
    return replace(track, positions=positions, rotations=rotations, velocities=moving, angular_velocities=still)


def dot(at: np.ndarray) -> Shape:
    """Return a small octahedron that stands for a controller or headset."""
    n = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], np.float64)
    faces = [(a, b, c) if (a + b // 2 + c // 4) % 2 == 0 else (a, c, b) for a in (0, 1) for b in (2, 3) for c in (4, 5)]
    return Shape(at + 0.05 * n, n, np.array(faces, np.uint32), ACCENT)


def sheet(name: str, clip: Clip, clips: list[Clip], first: float, last: float, bearing: float) -> None:
    database = build_database([c for c in clips if c.subject != clip.subject])
    avatar = Avatar.load(database, from_skeleton(clip.skeleton))
    track = simulate_clip(clip)
    if name == "reach":
        track = reaching(track)
    result, truth = run_chain(track, avatar), truth_of(clip)
    times, wanted = result.stamps_ns * 1e-9, np.linspace(first, last, COLUMNS)
    p, q, _, _ = measure.at_60(result.pose, times, wanted)
    side, pictures = np.array([-np.sin(bearing), np.cos(bearing), 0.0]), []
    for i, t in enumerate(wanted):
        shapes = [figure(avatar.skeleton, p[i], q[i])]
        shapes += [dot(at) for at in track.positions[np.searchsorted(track.stamps_ns, t * 1e9), :3]]
        shift = 0.0 if name == "reach" else 0.9
        if shift:
            k = min(round(t * clip.rate), len(truth.positions) - 1)
            shapes.append(figure(clip.skeleton, truth.positions[k], truth.rotations[k], GHOST, shift * side))
        x, y = (p[i, 1] + shift * side / 2)[:2]
        pictures.append(
            render(
                shapes,
                follow(float(x), float(y), 4.3 if shift else 3.6, bearing, 1.4),
                WIDTH + 90 * bool(shift),
                HEIGHT,
            )
        )
    write_png(PICTURES / f"pose-{name}.png", contact_sheet(pictures, COLUMNS // 2))


def copy_sheet(clip: Clip, ratio: float, first: float, last: float, bearing: float) -> None:
    pictures, side = [], np.array([-np.sin(bearing), np.cos(bearing), 0.0])
    bent, whole = stooped(clip, ratio).globals(), clip.globals()
    for i in (np.linspace(first, last, COLUMNS) * clip.rate).astype(int):
        shapes = [
            figure(clip.skeleton, p[i].astype(np.float64), q[i].astype(np.float64), *more)
            for (p, q), more in ((bent, ()), (whole, (GHOST, 0.9 * side)))
        ]
        x, y = (bent[0][i, 1] + 0.45 * side)[:2]
        pictures.append(render(shapes, follow(float(x), float(y), 4.3, bearing, 1.4), WIDTH + 90, HEIGHT))
    write_png(PICTURES / "stooped-copy.png", contact_sheet(pictures, COLUMNS // 2))


if __name__ == "__main__":
    every = load_clips([dataset("cmu_locomotion")])
    by_name = {c.name: c for c in every}
    for sheet_name, clip_name, begin, end, camera in SHEETS:
        if sheet_name in (sys.argv[1:] or [s[0] for s in SHEETS]):
            sheet(sheet_name, by_name[clip_name], every, begin, end, camera)
    if "copy" in (sys.argv[1:] or ["copy"]):
        copy_sheet(by_name["35_01"], 0.8, 0.6, 2.0, -1.3)
