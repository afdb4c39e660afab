"""How much landmarks help on people that the network was not trained on: BVH files in the folder MM_ROS_HELD_OUT."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_fusion import HARD, LOOK, World

from mm_ros.motion.importing import load_clips
from mm_ros.tracking.landmark_simulation import COMMON

SECONDS = 120


@pytest.fixture(scope="module")
def worlds():
    folder = os.environ.get("MM_ROS_HELD_OUT")
    if not folder:
        pytest.skip("MM_ROS_HELD_OUT names no folder of BVH files that the network was not trained on (LAFAN1)")
    clips = [c for c in load_clips(sorted(Path(folder).glob("*.bvh"))) if c.seconds > 20]
    cut = [c.cut(0, min(len(c), int(SECONDS * c.rate))) for c in clips]
    return [World(c, replace(LOOK, seed=i)) for i, c in enumerate(cut)]


def errors(worlds, options):
    fused = [w.error(w.fused(w.seen(replace(options, seed=i)))[0]) for i, w in enumerate(worlds)]
    return np.concatenate(fused), np.concatenate([w.error(w.network_yaw) for w in worlds])


def test_common_landmarks_take_the_error_to_six_tenths(worlds):
    fused, network = errors(worlds, COMMON)
    assert fused.mean() <= 0.6 * network.mean()
    assert np.percentile(fused, 95) <= 0.6 * np.percentile(network, 95)


def test_bad_landmarks_are_better_than_none(worlds):
    fused, network = errors(worlds, HARD)
    assert fused.mean() < network.mean()


def test_twice_the_noise_and_ten_per_cent_of_flips_are_still_better_than_none(worlds):
    double = replace(
        COMMON, noise_m=2 * COMMON.noise_m, depth_noise_m=2 * COMMON.depth_noise_m, turn_noise=2 * COMMON.turn_noise,
        flips=0.1,
    )  # fmt: skip
    fused, network = errors(worlds, double)
    assert fused.mean() < network.mean()
