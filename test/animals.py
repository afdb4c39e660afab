"""BVH motion of four-legged animals with typical joint names, which trot forward."""

from __future__ import annotations

import numpy as np

from mm_ros.motion.bvh.reader import Bvh

# Joint names of one animal in several naming schemes: hips, spine, chest, neck and head; front limb; hind limb; tail.
# {S} stands for Left or Right, {s} for left or right, {L} for L or R, {l} for l or r.
NAMINGS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "dog, names of a person": (
        ("Hips", "Spine", "Spine1", "Neck", "Head"),
        ("{S}Shoulder", "{S}Arm", "{S}ForeArm", "{S}Hand"), ("{S}UpLeg", "{S}Leg", "{S}Foot", "{S}ToeBase"), (),
    ),
    "dog, with a tail": (
        ("Hips", "Spine", "Spine1", "Neck", "Head"),
        ("{S}Shoulder", "{S}Arm", "{S}ForeArm", "{S}Hand"), ("{S}UpLeg", "{S}Leg", "{S}Foot", "{S}ToeBase"),
        ("Tail", "Tail1", "Tail2"),
    ),
    "horse, arms by other words": (
        ("pelvis", "loin", "withers", "neck", "head"),
        ("scapula_{l}", "humerus_{l}", "radius_{l}", "front_hoof_{l}"),
        ("femur_{l}", "tibia_{l}", "cannon_{l}", "hind_hoof_{l}"), ("tail_1", "tail_2"),
    ),
    "dog, front and hind": (
        ("root", "back", "chest", "neck", "head"),
        ("{S}FrontShoulder", "{S}FrontUpperLeg", "{S}FrontLowerLeg", "{S}FrontPaw"),
        ("{S}HindUpperLeg", "{S}HindLowerLeg", "{S}HindFoot", "{S}HindPaw"), ("tail",),
    ),
    "nameless": (
        ("b0", "b1", "b2", "b3", "b4"), ("f0{l}", "f1{l}", "f2{l}", "f3{l}"), ("h0{l}", "h1{l}", "h2{l}", "h3{l}"), (),
    ),
}  # fmt: skip


def quadruped(naming: str, size: float = 60.0, up: str = "y", frames: int = 180) -> Bvh:
    """Return a trotting dog whose hips are `size` units above the floor, and whose zero pose stands on all fours."""
    spine, front, hind, tail = NAMINGS[naming]
    names: list[str] = []
    parents: list[int] = []
    offsets: list[tuple[float, float, float]] = []

    def joint(name: str, parent: int, offset: tuple[float, float, float]) -> int:
        names.append(name)
        parents.append(parent)
        offsets.append(offset)
        return len(names) - 1

    hips = joint(spine[0], -1, (0, 1.0, 0))
    back = joint(spine[1], hips, (0, 0.02, 0.4))
    chest = joint(spine[2], back, (0, 0.0, 0.4))
    neck = joint(spine[3], chest, (0, 0.1, 0.2))
    head = joint(spine[4], neck, (0, 0.3, 0.25))
    ends, end_offsets = [head], [(0, 0.0, 0.25)]
    limbs = []
    for side, x in (("left", 0.12), ("right", -0.12)):
        words = {"S": side.capitalize(), "s": side, "L": side[0].upper(), "l": side[0]}
        a = joint(front[0].format(**words), chest, (x / 2, -0.02, 0.02))
        a = joint(front[1].format(**words), a, (x / 2, -0.2, 0.08))
        b = joint(front[2].format(**words), a, (0, -0.4, -0.04))
        c = joint(front[3].format(**words), b, (0, -0.36, 0.02))
        ends.append(c)
        end_offsets.append((0, -0.04, 0.1))
        limbs.append((a, b))
        a = joint(hind[0].format(**words), hips, (x, -0.1, 0))
        b = joint(hind[1].format(**words), a, (0, -0.35, 0.1))
        c = joint(hind[2].format(**words), b, (0, -0.3, -0.12))
        d = joint(hind[3].format(**words), c, (0, -0.2, 0.06))
        ends.append(d)
        end_offsets.append((0, -0.02, 0.1))
        limbs.append((a, b))
    parent = hips
    for i, name in enumerate(tail):
        parent = joint(name, parent, (0, 0.05 - 0.05 * i, -0.15))
    channels = tuple((0, 1, 2, 5, 3, 4) if p < 0 else (5, 3, 4) for p in parents)
    motion = np.zeros((frames, 3 * len(names) + 3))
    t = np.arange(frames) / 60
    motion[:, 1], motion[:, 2] = size, 0.8 * size * t
    for k, (a, b) in enumerate(limbs):
        phase = 2 * np.pi * 1.5 * t + (0.0 if k in (0, 3) else np.pi)
        motion[:, 3 * a + 4] = 20 * np.sin(phase)
        motion[:, 3 * b + 4] = 15 * np.maximum(np.cos(phase), 0)
    o, e = np.array(offsets) * size, np.array(end_offsets) * size
    if up == "z":
        turned = [0, 2, 1]
        o, e = o[:, turned] * [1, -1, 1], e[:, turned] * [1, -1, 1]
        motion[:, [1, 2]] = motion[:, [2, 1]] * [-1, 1]
        motion[:, 4::3], motion[:, 3::3] = motion[:, 4::3], motion[:, 3::3].copy()
    return Bvh(
        tuple(names), np.array(parents, np.int64), o, channels, np.array(ends, np.int64), e, 1 / 60, motion.round(6)
    )
