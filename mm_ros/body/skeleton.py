"""Skeleton of a motion or an avatar: tree, names and rest pose of its joints.

Every skeleton begins with the same canonical joints in the same order. Code refers to canonical joints, such as head,
hands and feet, by the constants of this module. Further joints, for example those of fingers, come after the canonical
joints. Names and parents of further joints are stored in the `Skeleton`.

In the rest pose (a T-pose facing +x, arms along ±y, legs along −z), the rotation of every joint is the identity.
Skeletons therefore differ only in their offsets, and a local rotation has the same meaning on all skeletons.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.maths import rotations as rot

JOINTS: tuple[tuple[str, str], ...] = (
    ("root", ""),
    ("hips", "root"),
    ("spine", "hips"),
    ("chest", "spine"),
    ("upper_chest", "chest"),
    ("neck", "upper_chest"),
    ("head", "neck"),
    ("left_shoulder", "upper_chest"),
    ("left_upper_arm", "left_shoulder"),
    ("left_lower_arm", "left_upper_arm"),
    ("left_hand", "left_lower_arm"),
    ("right_shoulder", "upper_chest"),
    ("right_upper_arm", "right_shoulder"),
    ("right_lower_arm", "right_upper_arm"),
    ("right_hand", "right_lower_arm"),
    ("left_upper_leg", "hips"),
    ("left_lower_leg", "left_upper_leg"),
    ("left_foot", "left_lower_leg"),
    ("left_toes", "left_foot"),
    ("right_upper_leg", "hips"),
    ("right_lower_leg", "right_upper_leg"),
    ("right_foot", "right_lower_leg"),
    ("right_toes", "right_foot"),
)
NAMES: tuple[str, ...] = tuple(name for name, _ in JOINTS)
PARENTS: NDArray[np.int32] = np.array([NAMES.index(p) if p else -1 for _, p in JOINTS], np.int32)
J = len(NAMES)
PARENTS.setflags(write=False)
MOST_JOINTS = 255
(ROOT, HIPS, SPINE, CHEST, UPPER_CHEST, NECK, HEAD,
 LEFT_SHOULDER, LEFT_UPPER_ARM, LEFT_LOWER_ARM, LEFT_HAND,
 RIGHT_SHOULDER, RIGHT_UPPER_ARM, RIGHT_LOWER_ARM, RIGHT_HAND,
 LEFT_UPPER_LEG, LEFT_LOWER_LEG, LEFT_FOOT, LEFT_TOES,
 RIGHT_UPPER_LEG, RIGHT_LOWER_LEG, RIGHT_FOOT, RIGHT_TOES) = range(J)  # fmt: skip

# Joints whose offsets from their parents are bones of the arms (ARM_BONES), or of trunk and neck (TRUNK_BONES).
ARM_BONES = (LEFT_LOWER_ARM, LEFT_HAND, RIGHT_LOWER_ARM, RIGHT_HAND)
TRUNK_BONES = (SPINE, CHEST, UPPER_CHEST, NECK, HEAD, LEFT_SHOULDER, LEFT_UPPER_ARM, RIGHT_SHOULDER, RIGHT_UPPER_ARM)

# Offsets of a person of 1.75 m, whose head joint is at 1.60 m and whose eyes are at about 1.65 m.
DEFAULT_OFFSETS: NDArray[np.float32] = np.array(
    [
        (0, 0, 0),
        (0, 0, 0.95),
        (0, 0, 0.10),
        (-0.01, 0, 0.13),
        (0, 0, 0.13),
        (-0.01, 0, 0.16),
        (0.02, 0, 0.12),
        (0, 0.03, 0.12),
        (0, 0.14, 0),
        (0, 0.28, 0),
        (0, 0.25, 0),
        (0, -0.03, 0.12),
        (0, -0.14, 0),
        (0, -0.28, 0),
        (0, -0.25, 0),
        (0, 0.09, -0.06),
        (0, 0, -0.41),
        (0, 0, -0.41),
        (0.13, 0, -0.055),
        (0, -0.09, -0.06),
        (0, 0, -0.41),
        (0, 0, -0.41),
        (0.13, 0, -0.055),
    ],
    np.float32,
)
# Ends of the last bones, which are the crown of the head, the finger tips and the toe tips, in the axes of the last
# joint [m].
TIPS: dict[str, tuple[float, float, float]] = {
    "head": (0.02, 0.0, 0.18),
    "left_hand": (0.0, 0.17, 0.0),
    "right_hand": (0.0, -0.17, 0.0),
    "left_toes": (0.07, 0.0, 0.0),
    "right_toes": (0.07, 0.0, 0.0),
}


class Segments(NamedTuple):
    """Factors for the lengths of an avatar's trunk and arms, relative to the scale of its legs."""

    trunk: float = 1.0
    arms: float = 1.0

    @lru_cache(maxsize=16)  # noqa: B019  (a few users; the matcher asks in each step)
    def factors(self, joints: int) -> NDArray[np.float32]:
        """Return a read-only array of the factors for the offsets of joints (joints, 1), which are 1 for joints that
        are not canonical."""
        out = np.ones((joints, 1), np.float32)
        out[list(TRUNK_BONES)], out[list(ARM_BONES)] = self.trunk, self.arms
        out.setflags(write=False)
        return out


WHOLE = Segments()


@dataclass(frozen=True)
class Skeleton:
    """Skeleton: a tree of J joints, of which the canonical joints come first. `offsets` (J, 3) are the positions of the
    joints in the axes of their parents in the rest pose [m]; `offsets[HIPS]` is the height of the hips above the floor.
    `parents` (J,) holds the index of each joint's parent, which comes before the joint, and −1 for the root.
    """

    offsets: NDArray[np.float32]
    names: tuple[str, ...] = NAMES
    parents: NDArray[np.int32] = field(default_factory=lambda: PARENTS)

    def __post_init__(self) -> None:
        if self.offsets.shape != (len(self.names), 3) or not np.isfinite(self.offsets).all():
            raise MmRosError(
                f"skeleton offsets: expected {len(self.names)} finite rows of 3, came shape {self.offsets.shape}"
            )
        if self.names != NAMES or self.parents is not PARENTS:
            self._check_tree()

    def _check_tree(self) -> None:
        """Check the names and parents of all joints, because compiled code uses parents as indices without bounds
        checks."""
        count, names, parents = len(self.names), self.names, np.asarray(self.parents)
        if names[:J] != NAMES:
            raise MmRosError(f"skeleton: its first joints must be {', '.join(NAMES)}; came {', '.join(names[:J])}")
        if count > MOST_JOINTS or len(set(names)) != count:
            raise MmRosError(f"skeleton: expected at most {MOST_JOINTS} joints with different names, came {count}")
        if parents.shape != (count,) or parents[:J].tolist() != PARENTS.tolist():
            raise MmRosError("skeleton: its canonical joints have other parents than those of mm_ros")
        if (parents[J:] < 1).any() or (parents[J:] >= np.arange(J, count)).any():
            raise MmRosError("skeleton: each joint must follow its parent")

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def mirrored(self) -> NDArray[np.int32]:
        """Index of each joint's partner on the other side (J,); a joint in the middle is its own partner."""
        swapped = [n.replace("left", "\0").replace("right", "left").replace("\0", "right") for n in self.names]
        return np.array([self.index(n) for n in swapped], np.int32)

    @property
    def canonical(self) -> Skeleton:
        """Skeleton with only the canonical joints of this skeleton."""
        return self if len(self) == J else Skeleton(self.offsets[:J])

    def ancestors(self, joint: int) -> tuple[int, ...]:
        """Return the parent, grandparent and further ancestors of a joint up to the root."""
        parent = int(self.parents[joint])
        return () if parent < 0 else (parent, *self.ancestors(parent))

    def with_offsets(self, offsets: NDArray[np.float32]) -> Skeleton:
        """Return a skeleton with the same joints and the given offsets."""
        return replace(self, offsets=offsets)

    def kinematics(self, positions: Any, rotations: Any) -> tuple[Any, Any]:
        """Convert positions (…, J, 3) and rotations (…, J, 4) relative to the parents to the frame in which joint 0,
        the root, is given."""
        return rot.forward_kinematics(self.parents, positions, rotations)

    def index(self, name: str) -> int:
        try:
            return self.names.index(name)
        except ValueError:
            raise MmRosError(
                f"joint '{name}' is not in the skeleton. Joints: {', '.join(self.names)}"
            ) from None

    @property
    def hash(self) -> int:
        """64-bit hash of the joints' names, parents and offsets, which are rounded to 10 µm."""
        digest = hashlib.blake2b(digest_size=8)
        digest.update("\n".join(self.names).encode())
        digest.update(np.ascontiguousarray(self.parents, "<i4").tobytes())
        digest.update(np.round(self.offsets.astype(np.float64) * 1e5).astype("<i8").tobytes())
        return int.from_bytes(digest.digest(), "little")

    def rest_positions(self) -> NDArray[np.float32]:
        """Return the positions (J, 3) of the joints in the rest pose [m]; z is the height above the floor."""
        out = self.offsets.copy()
        for j in range(1, len(out)):
            out[j] += out[self.parents[j]]
        return out

    @property
    def head_height(self) -> float:
        """Height of the head joint above the floor when the person stands upright [m]."""
        return float(self.rest_positions()[HEAD, 2])

    @property
    def leg_length(self) -> float:
        """Length of the leg bones from hip joint to ankle [m], mean of left and right leg."""
        legs = [LEFT_LOWER_LEG, LEFT_FOOT, RIGHT_LOWER_LEG, RIGHT_FOOT]
        return float(np.linalg.norm(self.offsets[legs].astype(np.float64), axis=1).sum() / 2)

    @property
    def arm_length(self) -> float:
        """Length of the arm bones from shoulder to wrist [m], mean of left and right arm."""
        return float(np.linalg.norm(self.offsets[list(ARM_BONES)].astype(np.float64), axis=1).sum() / 2)

    def scaled(self, scale: float, segments: Segments = WHOLE) -> Skeleton:
        """Return a skeleton whose offsets are multiplied by `scale` and by the factors of `segments`."""
        offsets = self.offsets * np.float32(scale)
        return self.with_offsets((offsets * segments.factors(len(self))).astype(np.float32))


def default_skeleton() -> Skeleton:
    return Skeleton(DEFAULT_OFFSETS.copy())


def canonical_kinematics(positions: Any, rotations: Any) -> tuple[Any, Any]:
    """Convert canonical joint poses from parent axes to the room, without a skeleton, because all skeletons have the
    same canonical parents."""
    return rot.forward_kinematics(PARENTS, positions[..., :J, :], rotations[..., :J, :])
