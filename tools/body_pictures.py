"""Draw docs/pictures/bodies.png: avatars of a user whose devices are turned and shifted against the joints.

In the upper row, the pose of a device counts as that of its joint, as in earlier versions; the lower row shows the
present version. The user is a person of the CMU motion data; the controllers report their poses in the convention
`openxr_grip`. Run `python tools/body_pictures.py`.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.avatar import Avatar, AvatarSettings
from mm_ros.body.shape import room_joints
from mm_ros.body.types import LEFT_HAND_ROLE, ROLES, WAIST_ROLE
from mm_ros.maths import rotations as rot
from mm_ros.motion.default_database import default_database_path
from mm_ros.motion.files import read_database
from mm_ros.motion.importing import load_clips
from mm_ros.motion.shared_data import dataset
from mm_ros.show.film import figure
from mm_ros.show.render import ACCENT, Camera, Shape, contact_sheet, follow, render, write_png
from mm_ros.tracking.calibration import from_skeleton
from mm_ros.tracking.hand_poses import hand_in_device
from mm_ros.tracking.hands import HandStage
from mm_ros.tracking.mounting import MountingSettings
from mm_ros.tracking.simulation import Simulation, TrackerTrack, simulate_clip

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "bodies.png"
CLIP, TIMES_S = "02_05", (4.0, 5.5, 7.0)
GRIP_TURN = (0.12, -0.15, 0.1)  # rotation vector from the usual hold to the user's hold of the controllers [rad]


def gripped(track: TrackerTrack) -> TrackerTrack:
    """Return a copy of the tracker poses in which the hands have the convention `openxr_grip`."""
    positions, rotations = track.positions.copy(), track.rotations.copy()
    for side in range(2):
        role, device = LEFT_HAND_ROLE + side, hand_in_device("openxr_grip", side)
        held = rot.multiply(rotations[:, role], rot.exp(np.array(GRIP_TURN)))
        rotations[:, role] = rot.multiply(held, rot.inverse(device[3:]))
    return replace(track, positions=positions, rotations=rotations)


def poses(track: TrackerTrack, avatar: Avatar, convention: str) -> list[tuple[Any, Any]]:
    """Return the avatar's pose and the devices' positions at each time in TIMES_S."""
    hands, out, wanted = HandStage(declared=convention), [], list(TIMES_S)
    for i in range(len(track)):
        frame = track.frame(i)
        devices = [frame.positions[r].copy() for r in range(len(ROLES)) if track.present[r]]
        pose = avatar.step(hands.step(frame))
        if wanted and i / 90 >= wanted[0] and pose is not None:
            out.append((pose, devices))
            wanted.pop(0)
    return out


def dot(at: Any) -> Shape:
    n = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], np.float64)
    faces = [(a, b, c) if (a + b // 2 + c // 4) % 2 == 0 else (a, c, b) for a in (0, 1) for b in (2, 3) for c in (4, 5)]
    return Shape(at + 0.03 * n, n, np.array(faces, np.uint32), ACCENT)


def near(pose: Any) -> Camera:
    """Return a camera that shows the avatar's arms from near."""
    p, _ = room_joints(pose)
    x, y, yaw = float(pose.root[0]), float(pose.root[1]), float(rot.yaw_of(pose.root[3:]))
    eye = (x + 1.9 * np.cos(yaw + 0.5), y + 1.9 * np.sin(yaw + 0.5), 1.5)
    return Camera(eye, (x, y, float(p[:, 2].max()) - 0.45))


def main() -> None:
    (clip,) = load_clips([dataset("cmu_general") / f"{CLIP}.bvh"])
    database, calibration = read_database(default_database_path()), from_skeleton(clip.skeleton)
    bare = simulate_clip(clip, Simulation(noise_m=0.0003, noise_rad=0.001))
    worn = simulate_clip(clip, Simulation(noise_m=0.0003, noise_rad=0.001, waist=True, feet=True, straps=True, seed=3))
    on_joints = {ROLES[r]: np.array([0.0, 0, 0, 1, 0, 0, 0]) for r in range(WAIST_ROLE, WAIST_ROLE + 3)}
    pictures = []
    for now in (False, True):
        settings = AvatarSettings(mounting=MountingSettings(estimate_mounting=now))
        known = calibration if now else replace(calibration, mountings=on_joints)
        for track, camera in ((gripped(bare), near), (worn, None)):
            avatar = Avatar.load(database, known, settings)
            convention = "openxr_grip" if now and camera else "wrist"
            for pose, devices in poses(track, avatar, convention):
                p, q = (a.astype(np.float64) for a in room_joints(pose))
                shapes = [figure(avatar.skeleton, p, q), *map(dot, devices)]
                x, y, yaw = float(pose.root[0]), float(pose.root[1]), float(rot.yaw_of(pose.root[3:]))
                view = camera(pose) if camera else follow(x, y, 3.6, yaw + 0.8, 1.2)
                pictures.append(render(shapes, view, 220, 280))
    write_png(PICTURE, contact_sheet(pictures, 2 * len(TIMES_S)))


if __name__ == "__main__":
    main()
