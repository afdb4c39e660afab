"""The tracking stages after a tracker source: gate, hand poses, calibration, room, and mountings of body trackers.

The node `tracker_bridge` applies the stages to live frames, and the function `live_frames` to recorded frames.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.types import F64, Calibration, R, TrackerFrame, identity_pose
from mm_ros.maths import rotations as rot
from mm_ros.tracking.calibration import DEFAULTS, CalibrationSettings, Calibrator, grips_given, head_joint_height
from mm_ros.tracking.gate import GateSettings, TrackerGate
from mm_ros.tracking.hand_poses import ESTIMATED
from mm_ros.tracking.hands import HandSettings, HandStage
from mm_ros.tracking.mounting import MountingSettings, MountingStage
from mm_ros.tracking.room import Room, compose, room_from_source


class TrackerStages:
    """The tracking stages of one user, which process each tracker frame in this order: `gate`, `hands`, `calibrator`,
    `room` and `mounting`.

    `known` is the calibration of the user from the source or from a file, or None for an unknown user. The source
    states poses of controllers in the convention of hand poses `declared`.
    """

    def __init__(
        self, calibration: CalibrationSettings = DEFAULTS, known: Calibration | None = None,
        gate: GateSettings | None = None, hands: HandSettings | None = None, declared: str = "wrist",
        mounting: MountingSettings | None = None, place: tuple[float, ...] = (0.0, 0.0),
    ) -> None:  # fmt: skip
        self.gate, self.hands = TrackerGate(gate or GateSettings()), HandStage(hands or HandSettings(), declared)
        self.calibrator, self.room = Calibrator(calibration, known), Room(place)
        self.mounting = MountingStage(mounting, self.calibrator.current)

    def use(self, calibration: Calibration) -> Calibration:
        """Use `calibration` from the next frame on, and return it with the measured mountings of body trackers."""
        self.hands.measure(head_joint_height(calibration), calibration.arm_span, grips_given(calibration))
        self.room.calibrate(calibration)
        return self.mounting.set_calibration(calibration)

    def reset(self) -> None:
        self.gate.reset()
        self.hands.forget_motion()
        self.calibrator.forget_motion()


@dataclass
class LiveFrames:
    """Recorded tracker frames after all tracking stages, as the node `tracker_bridge` would publish them.

    `calibrations` maps the index of a frame to the calibration that is used from this frame on. `repeated` has an array
    (R,) per frame, which is true for each role whose device repeats the pose of the frame before exactly.
    """

    frames: list[TrackerFrame] = field(default_factory=list)
    calibrations: dict[int, Calibration] = field(default_factory=dict)
    repeated: list[NDArray[np.bool_]] = field(default_factory=list)

    def to_map(self, stamps_ns: NDArray[np.int64], positions: F64, rotations: F64) -> tuple[F64, F64]:
        """Transform poses of a device from the room of the source to the map frame.

        Each pose of `positions` (F, 3) and `rotations` (F, 4) is transformed like the frame at the stamp of the pose.
        """
        indices = list(self.calibrations)
        places = np.array([compose(identity_pose(), room_from_source(c)) for c in self.calibrations.values()])
        starts = np.array([self.frames[i].stamp_ns if i < len(self.frames) else np.inf for i in indices])
        place = places[np.clip(np.searchsorted(starts, stamps_ns, side="right") - 1, 0, None)]
        return rot.rotate(place[:, 3:], positions) + place[:, :3], rot.multiply(place[:, 3:], rotations)


def live_frames(
    raw: Iterable[TrackerFrame], known: Calibration | None = None, settings: CalibrationSettings = DEFAULTS,
    gated: bool = False, hand_pose: str = ESTIMATED,
) -> LiveFrames:  # fmt: skip
    """Apply the tracking stages to recorded tracker frames. `known` is the calibration of the user from a file, or None
    for an unknown user.

    If `gated` is true, the frames are from a recorded session, in which poses are already filtered and hands converted.
    The controllers' poses in the frames are in the convention of hand poses `hand_pose`.
    """
    stages = TrackerStages(settings, known, hands=HandSettings(hand_pose=hand_pose))
    stages.use(stages.calibrator.current)
    last = np.full((R, 7), np.nan)
    out = LiveFrames(calibrations={0: stages.calibrator.current})
    for frame in raw:
        passed = frame if gated else stages.gate.step(frame)
        if passed is None:
            continue
        now = np.concatenate([passed.positions, passed.rotations], axis=1)
        out.repeated.append((now == last).all(1))
        last = now
        if not gated:
            stages.hands.step(passed)
        new = stages.calibrator.step(passed)
        if new is not None:
            stages.use(new)
            out.calibrations[len(out.frames)] = new
        out.frames.append(stages.room.carry(passed))
    return out
