"""Reads the roles and poses of SteamVR's devices by the library OpenVR.

The module `steamvr_poses` has not been run on hardware. Some tests use the real OpenVR library, which loads a small
client library of the project instead of SteamVR (test/tracking/test_steamvr_library.py). In other tests a Python module
with the same structures replaces the OpenVR library.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from mm_ros.body.types import (
    BODY_ROLES,
    EXTRAPOLATED,
    HEAD_ROLE,
    LEFT_HAND_ROLE,
    RIGHT_HAND_ROLE,
    ROLE_ALIASES,
    ROLES,
    TRACKED,
    TrackerFrame,
    role_index,
)
from mm_ros.tracking.sources import axes
from mm_ros.tracking.sources.base import UNKNOWN_GRIPS, Grips

BODY_NAMES = tuple(ROLES[r] for r in BODY_ROLES)


class Quit(Exception):
    """Raised if SteamVR asks all programs that use it to end."""


class SteamVrPoses:
    """Reads tracker frames by the Python module `openvr`; `serials` maps roles to serial numbers of devices."""

    def __init__(self, openvr: Any, serials: dict[str, str] | None = None) -> None:
        self._openvr = openvr
        self._by_serial = {serial: role_index(role) for role, serial in (serials or {}).items()}
        self._system = openvr.init(openvr.VRApplication_Background)
        self._poses = (openvr.TrackedDevicePose_t * openvr.k_unMaxTrackedDeviceCount)()
        self._event = openvr.VREvent_t()
        self._epoch = 0
        self._serials: dict[int, str] = {}
        self._assigned: dict[int, int | None] = {}
        self.grips: Grips = UNKNOWN_GRIPS

    def sample(self) -> TrackerFrame:
        """Return the poses of all devices, stamped with the time of the call, because poses of OpenVR have no time."""
        self._events()
        vr = self._openvr
        self._system.getDeviceToAbsoluteTrackingPose(vr.TrackingUniverseStanding, 0.0, self._poses)
        out = TrackerFrame(time.clock_gettime_ns(time.CLOCK_MONOTONIC), self._epoch)
        held: dict[int, bool | None] = {LEFT_HAND_ROLE: None, RIGHT_HAND_ROLE: None}
        for i, pose in enumerate(self._poses):
            if pose.bDeviceIsConnected:
                role = self._role(i)
                if role is not None:
                    self._take(out, role, pose)
                if role in held:
                    held[role] = self._grip(i)
        self.grips = (held[LEFT_HAND_ROLE], held[RIGHT_HAND_ROLE])
        return out

    def _grip(self, i: int) -> bool | None:
        known, state = self._system.getControllerState(i)
        return None if not known else bool(state.ulButtonPressed >> self._openvr.k_EButton_Grip & 1)

    def _take(self, out: TrackerFrame, role: int, pose: Any) -> None:
        matrix = _matrix(pose.mDeviceToAbsoluteTracking)
        if not pose.bPoseIsValid or not np.isfinite(matrix).all():
            return
        out.positions[role], out.rotations[role] = axes.from_matrix(matrix)
        fine = pose.eTrackingResult == self._openvr.TrackingResult_Running_OK
        out.state[role] = TRACKED if fine else EXTRAPOLATED
        out.sampled_ns[role] = out.stamp_ns

    def _role(self, i: int) -> int | None:
        vr, system = self._openvr, self._system
        kind = system.getTrackedDeviceClass(i)
        if kind == vr.TrackedDeviceClass_HMD:
            return HEAD_ROLE
        if self._by_serial:
            role = self._by_serial.get(self._serial(i))
            if role is not None:
                return role
        if kind == vr.TrackedDeviceClass_Controller:
            hand = system.getControllerRoleForTrackedDeviceIndex(i)
            hands = {
                vr.TrackedControllerRole_LeftHand: LEFT_HAND_ROLE,
                vr.TrackedControllerRole_RightHand: RIGHT_HAND_ROLE,
            }
            return hands.get(hand)
        if kind == vr.TrackedDeviceClass_GenericTracker:
            return self._assigned_role(i)
        return None

    def _assigned_role(self, i: int) -> int | None:
        """Return the role that the user has assigned to a tracker in SteamVR, or None. SteamVR reports the role as a
        type of controller, for example "vive_tracker_left_foot"."""
        if i not in self._assigned:
            name = self._text(i, self._openvr.Prop_ControllerType_String).removeprefix("vive_tracker_")
            known = name in BODY_NAMES or name in ROLE_ALIASES
            self._assigned[i] = role_index(name) if known else None
        return self._assigned[i]

    def _serial(self, i: int) -> str:
        if i not in self._serials:
            self._serials[i] = self._text(i, self._openvr.Prop_SerialNumber_String)
        return self._serials[i]

    def _text(self, i: int, name: int) -> str:
        try:
            text = self._system.getStringTrackedDeviceProperty(i, name)
        except self._openvr.error_code.TrackedPropertyError:  # The SteamVR device lacks the property `name`.
            return ""
        return text.decode() if isinstance(text, bytes) else str(text)

    def unnamed_trackers(self) -> list[str]:
        """Return the serial numbers of connected body trackers that have no role, such as waist or left foot."""
        vr, out = self._openvr, []
        for i, pose in enumerate(self._poses):
            generic = pose.bDeviceIsConnected and (
                self._system.getTrackedDeviceClass(i) == vr.TrackedDeviceClass_GenericTracker
            )
            if generic and self._role(i) is None:
                out.append(self._serial(i))
        return out

    def _events(self) -> None:
        vr = self._openvr
        while self._system.pollNextEvent(self._event):
            kind = self._event.eventType
            if kind == vr.VREvent_Quit:
                self._system.acknowledgeQuit_Exiting()
                raise Quit
            if kind in (
                vr.VREvent_TrackedDeviceActivated, vr.VREvent_TrackedDeviceDeactivated,
                vr.VREvent_TrackedDeviceRoleChanged, vr.VREvent_PropertyChanged,
            ):  # fmt: skip
                self._serials.clear()
                self._assigned.clear()
            # OpenVR does not report by how much the play space has moved, so a new epoch starts.
            if kind in (vr.VREvent_StandingZeroPoseReset, vr.VREvent_ChaperoneUniverseHasChanged):
                self._epoch += 1

    def close(self) -> None:
        self._openvr.shutdown()


def _matrix(m: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([[m[row][column] for column in range(4)] for row in range(3)], np.float64)


def describe(error: Exception) -> str:
    """Return a message for an error of OpenVR, which has only a type and a number."""
    number = getattr(error, "error_value", None)
    words = {
        "InitError_Init_NoServerForBackgroundApp": "SteamVR is not running",
        "InitError_Init_HmdNotFound": "SteamVR found no headset",
        "InitError_Init_PathRegistryNotFound": "SteamVR is not installed",
        "InitError_Init_InstallationNotFound": "SteamVR is not installed",
    }
    name = type(error).__name__
    code = "" if number is None else f" ({number})"
    return words.get(name, str(error) or name) + code
