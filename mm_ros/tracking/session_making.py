"""Makes sessions without a headset: from motion clips with simulated trackers, and from tables of poses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.clip import Clip
from mm_ros.body.landmarks import Sighting
from mm_ros.body.types import HEAD_ROLE, Calibration, TrackerFrame
from mm_ros.sessions.session import Session
from mm_ros.tracking.calibration import (
    HEADSET_IN_HEAD,
    UNKNOWN_SIGMA,
    Calibrator,
    from_skeleton,
    from_standing_height,
)
from mm_ros.tracking.gate import TrackerGate
from mm_ros.tracking.hand_poses import ESTIMATED
from mm_ros.tracking.hands import HandSettings, HandStage, converted
from mm_ros.tracking.landmark_simulation import LandmarkSimulation, simulate_landmarks
from mm_ros.tracking.simulation import Simulation, simulate_clip
from mm_ros.tracking.truth import truth_of_clip

START_NS = 1_700_000_000_000_000_000  # first stamp of every made session, so that equal inputs make equal sessions
PAUSE_NS = 1_000_000_000  # between two clips
EMPTY = Simulation()


def session_of_clips(
    clips: list[Clip], options: Simulation = EMPTY, name: str = "", camera: LandmarkSimulation | None = None
) -> Session:
    """Make a session from the clips of one person, with simulated landmarks if `camera` is given.

    In the session, the clips are one second apart, and each clip has its own epoch.
    """
    people = {c.skeleton.hash: c.subject or c.name for c in clips}
    if len(people) > 1:
        raise MmRosError(
            f"a session holds clips of one person, and these clips are of {len(people)}: {', '.join(people.values())}. "
            "Make one session for each person"
        )
    out = Session([], from_skeleton(clips[0].skeleton), [], clips[0].skeleton, name)
    start_ns = START_NS
    for k, clip in enumerate(clips):
        track = simulate_clip(clip, replace(options, seed=options.seed + k), start_ns)
        body = truth_of_clip(clip, options.rate)
        for i in range(len(track)):
            frame = track.frame(i)
            frame.epoch = k
            out.frames.append(frame)
            out.truth.append(body.pose(i, frame.stamp_ns, k))
        if camera is not None:
            seen = simulate_landmarks(clip, replace(camera, seed=camera.seed + k), start_ns, track)
            out.sightings += [Sighting(s.arrives_ns, replace(s.landmarks, epoch=k)) for s in seen]
        start_ns = out.frames[-1].stamp_ns + PAUSE_NS
    return out


def gated(frames: Iterable[TrackerFrame]) -> Iterator[TrackerFrame]:
    """Filter the tracker frames by the gate, which also computes velocities, and yield them."""
    gate = TrackerGate()
    for raw in frames:
        out = gate.step(raw)
        if out is not None:
            yield out


def session_of_table(
    frames: list[TrackerFrame], name: str = "", head_height: float = 0.0, hands: HandStage | None = None
) -> Session:
    """Make a session from the tracker poses in a table.

    `hands` is the stage that converts the hand poses; if `hands` is None, the convention of hand poses is estimated.
    `head_height` is the height of the headset of the standing user [m]; if 0, the height is measured.
    """
    hands = hands or HandStage(HandSettings(hand_pose=ESTIMATED))
    passed = list(gated(frames))
    if passed:  # an approximate user height is enough to convert hand poses
        heights = [f.positions[HEAD_ROLE, 2] for f in passed]
        hands.height = float(np.clip(np.percentile(heights, 95), 1.0, 2.1)) - HEADSET_IN_HEAD[2]
    out = Session(converted(passed, hands), name=name)
    out.calibration = from_standing_height(head_height) if head_height else _measured(out.frames)
    return out


def _measured(frames: list[TrackerFrame]) -> Calibration:
    calibrator = Calibrator()
    for frame in frames:
        calibrator.step(frame)
    if calibrator.current.calibrated or calibrator.current.note:
        return calibrator.current
    # If the recording is too short for a measurement, a high percentile of the head heights is used, because people are
    # upright most of the time.
    heights = [f.positions[HEAD_ROLE, 2] for f in frames]
    guess = float(np.clip(np.percentile(heights, 95), 1.2, 2.1))
    guessed = from_standing_height(guess, calibrated=False, arm_span=calibrator.current.arm_span)
    return replace(guessed, head_height_sigma=UNKNOWN_SIGMA)
