"""Bent copies of upright motion, and databases with bent copies."""

import argparse

import numpy as np
import pytest
from bvh_dialects import walks

from mm_ros.body.skeleton import HEAD, HIPS, LEFT_FOOT, LEFT_TOES, RIGHT_FOOT, RIGHT_TOES, UPPER_CHEST
from mm_ros.cli import import_
from mm_ros.maths import rotations as rot
from mm_ros.motion import stoop
from mm_ros.motion.bands import FINE, smooth_ratios, torso_angles
from mm_ros.motion.build import BuildOptions, build_database

FEET = [LEFT_FOOT, LEFT_TOES, RIGHT_FOOT, RIGHT_TOES]
UPRIGHT = ("idle", "walk 1", "walk 0.45", "back 0.6", "side 0.5", "curve 0.6 0.8", "turn 90 1.2")
SHARE = 0.8  # so that each depth is made, of these few


@pytest.fixture(scope="module")
def upright():
    return [walks()[n] for n in UPRIGHT]


@pytest.fixture(scope="module")
def databases(upright):
    return [build_database(upright, options=BuildOptions(plant_feet=False, stooped=s)) for s in (0.0, SHARE)]


def heights(clip):
    return clip.globals()[0][:, HEAD, 2] / clip.skeleton.head_height


def pitch(rotations):
    """Angle to the vertical of the joint's axis that points up at rest."""
    up = rot.rotate(rotations.astype(np.float64), np.tile([0.0, 0.0, 1.0], (len(rotations), 1)))
    return np.arccos(np.clip(up[:, 2], -1, 1))


@pytest.mark.parametrize("ratio", sorted(set(stoop.RATIOS)))
@pytest.mark.parametrize("name", ["walk 1", "side 0.5"])
def test_feet_stay_and_the_head_comes_down(name, ratio):
    clip = walks()[name]
    copy = stoop.stooped(clip, ratio)
    p, q = clip.globals()
    new, turned = copy.globals()
    assert np.abs(new[:, FEET] - p[:, FEET]).max() < 1e-4
    assert np.abs((turned[:, FEET] * q[:, FEET]).sum(-1)).min() > 1 - 1e-5
    assert heights(copy).mean() == pytest.approx(ratio, abs=0.003)
    assert np.abs(copy.positions[:, 2:] - clip.positions[:, 2:]).max() == 0  # bones keep their lengths


def test_the_back_bends_over_hips_that_go_back_while_the_head_looks_up():
    clip = walks()["walk 1"]
    copy = stoop.stooped(clip, 0.8)
    p, q = copy.globals()
    assert np.degrees(torso_angles(p)).min() > 25 > np.degrees(torso_angles(clip.globals()[0])).max()
    ahead = rot.rotate(q[:, 0].astype(float), np.tile([1.0, 0, 0], (len(q), 1)))
    for joint, least, most in ((HIPS, -0.25, -0.05), (HEAD, 0.1, 0.4)):
        moved = ((p[:, joint] - clip.globals()[0][:, joint]) * ahead).sum(-1)
        assert least < moved.mean() < most
    assert pitch(q[:, HEAD]).mean() < 0.7 * pitch(q[:, UPPER_CHEST]).mean()


def test_a_copy_moves_as_smoothly_as_the_original():
    """Maximum acceleration of hips, knees, head and hands over all frames."""
    for name in ("walk 1", "turn 90 1.2"):
        clip = walks()[name]
        largest = [
            np.linalg.norm(np.diff(c.globals()[0].astype(np.float64), 2, axis=0), axis=-1).max() * c.rate**2
            for c in (clip, stoop.stooped(clip, 0.76))
        ]
        assert largest[1] < 1.3 * largest[0]


def test_copies_are_for_bands_that_few_are_in(upright):
    standing = np.full(10_000, 0.97)
    assert stoop.poor_depths(standing, 0.25) == list(stoop.RATIOS)
    crouching = np.concatenate([standing, np.full(1000, 0.7)])
    assert stoop.poor_depths(crouching, 0.25) == [r for r in stoop.RATIOS if r > FINE[0][1]]
    assert stoop.poor_depths(standing, 0.0) == []
    low = [stoop.stooped(c, 0.8) for c in upright]
    assert stoop.bent_copies(low, [smooth_ratios(heights(c), c.rate) for c in low], SHARE) == []


def test_pieces_are_of_all_kinds(upright):
    pieces = stoop.pieces_to_bend(upright, [smooth_ratios(heights(c), c.rate) for c in upright], 30.0)
    assert {p.group[0] for p in pieces} == set(stoop.COPIED)
    assert len({(p.clip, p.first) for p in pieces}) == len(pieces)
    assert all(p.stop - p.first >= stoop.SHORTEST_S * upright[p.clip].rate for p in pieces)


def test_who_stands_upright_is_asked_as_before(databases):
    plain, bent = databases
    n = len(plain)
    assert len(plain) < len(bent) <= (1 + SHARE) * n + 60 * stoop.LONGEST_S
    assert (plain.features == bent.features[:n]).all() and (plain.feature_std == bent.feature_std).all()
    for name in ("upright", "tip_toe"):
        if name in plain.bands:
            a, b = (db.tags & np.uint64(db.tag_bit(f"band_{name}")) != 0 for db in databases)
            assert (a == b[:n]).all() and not b[n:].any()


def test_copies_fill_finer_bands_and_have_a_tag(databases):
    plain, bent = databases
    low = [name for name, _, _ in FINE[1:5]]  # of the lowest there are not clips enough here
    assert [name for name, *_ in bent.provenance["bands"]][:4] == low
    assert stoop.TAG not in plain.tag_names and stoop.TAG in bent.tag_names
    made = bent.tags & np.uint64(bent.tag_bit(stoop.TAG)) != 0
    assert made.sum() == bent.provenance["copies"]["frames"] and not made[: len(plain)].any()
    for name in low:
        assert (made & (bent.tags & np.uint64(bent.tag_bit(f"band_{name}")) != 0)).sum() > 60


def test_import_offers_the_default_of_the_build():
    parser = argparse.ArgumentParser()
    import_.add_arguments(parser)
    assert parser.parse_args(["walk.bvh"]).stooped == BuildOptions().stooped
