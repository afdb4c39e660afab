"""The compiled use of the user's estimated feet in the pose stage against the same rules in numpy."""

import numpy as np
import pytest

from mm_ros.body.skeleton import default_skeleton
from mm_ros.maths.packed import packed
from mm_ros.maths.springs import damp
from mm_ros.pose.feet import make_feet
from mm_ros.pose.kernel import (
    CALM,
    RELEASED_CONTACT,
    SHARE_HALFLIFE_S,
    SUPPORTING_CONTACT,
    follow_user,
    make_user,
)


class Reference:
    """The rules with numpy, one frame at a time."""

    def __init__(self):
        self.stands, self.share = np.ones(2, np.bool_), np.zeros((2, 2))
        self.ankles, self.moves = np.zeros((2, 3)), np.zeros(2)

    def step(self, feet, known, contacts, follow, certain_m, holds, dt):
        out, goal, stands = np.zeros((2, 7)), np.zeros((2, 2)), contacts
        if len(known):
            contact, moves, ankles, sigma = known[:, 0], known[:, 2], known[:, 3:6], known[:, 9]
            certain = 1.0 / (1.0 + (sigma / certain_m) ** 2)
            goal[0] = follow * certain
            self.ankles[:], self.moves[:] = ankles, moves
            if holds:
                leaves = (contact < RELEASED_CONTACT) & (moves > 0.5 + CALM * (1.0 - certain))
                self.stands[:] = np.where(self.stands, ~leaves, contact > 0.5)
                if not (self.stands & (feet.locked != 0)).any():
                    free = np.where(feet.stepping > 0.0, 0.0, contact)
                    foot = int(free.argmax())
                    self.stands[foot] |= free[foot] > SUPPORTING_CONTACT
                stands = self.stands.copy()
                goal[1] = certain * (1.0 - moves) * self.stands
                out[:, 6] = 1.0 - moves
        self.share[:] = damp(self.share, goal, SHARE_HALFLIFE_S, dt)
        out[:, :3], out[:, 3], out[:, 4:6] = self.ankles, self.moves, self.share.T
        return stands, out


@pytest.mark.parametrize("holds", [True, False])
def test_the_kernel_follows_the_same_rules(holds):
    rng = np.random.default_rng(7)
    (user, _), (memory, feet) = packed(make_user()), packed(make_feet(default_skeleton()))
    reference, seen = Reference(), set()
    for _ in range(2000):
        feet.locked[:] = rng.integers(0, 2, 2)
        feet.stepping[:] = rng.uniform(-0.5, 0.2, 2)
        known = rng.uniform(0.0, 1.0, (2 if rng.uniform() < 0.9 else 0, 10))
        contacts, dt = rng.integers(0, 2, 2).astype(np.bool_), rng.choice([0.0, 1 / 90, 1 / 30])
        stands, estimated = np.empty(2, np.uint8), np.empty((2, 7))
        follow_user(user, memory, known, contacts, 0.9, 0.3, holds, dt, estimated, stands)
        expected_stands, expected = reference.step(feet, known, contacts, 0.9, 0.3, holds, dt)
        np.testing.assert_array_equal(stands != 0, expected_stands)
        np.testing.assert_allclose(estimated, expected, rtol=1e-12, atol=1e-15)
        seen.add(tuple(stands.tolist()))
    assert len(seen) == 4
