"""SteamVR source with a fake of the real module and its real structures. It has not been run on hardware."""

import json
import sys
import time
from unittest.mock import create_autospec

import numpy as np
import pytest
from processes import PATIENCE_S

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import EXTRAPOLATED, LOST, ROLES, TRACKED, R, TrackerFrame
from mm_ros.maths import rotations as rot
from mm_ros.tracking.sources.steamvr import SteamVrSource
from mm_ros.tracking.sources.steamvr_poses import Quit, SteamVrPoses, describe
from mm_ros.tracking.sources.steamvr_process import frame_of, line_of

openvr = pytest.importorskip("openvr", reason="openvr is not installed (extra 'steamvr')")

HMD, LEFT, RIGHT, PUCK = 0, 3, 4, 7


class Fake:
    """The module itself with only `init` and `shutdown` replaced, so constants and structures are the real ones."""

    def __init__(self):
        self.system = create_autospec(openvr.IVRSystem, instance=True)
        self.module = create_autospec(openvr)
        for name in dir(openvr):
            if not callable(getattr(openvr, name)) or isinstance(getattr(openvr, name), type):
                setattr(self.module, name, getattr(openvr, name))
        self.module.init.return_value = self.system
        self.poses = {}
        self.events = []
        self.classes = {
            HMD: openvr.TrackedDeviceClass_HMD,
            LEFT: openvr.TrackedDeviceClass_Controller,
            RIGHT: openvr.TrackedDeviceClass_Controller,
            PUCK: openvr.TrackedDeviceClass_GenericTracker,
        }
        hands = {LEFT: openvr.TrackedControllerRole_LeftHand, RIGHT: openvr.TrackedControllerRole_RightHand}
        s = self.system
        s.getDeviceToAbsoluteTrackingPose.side_effect = self._fill
        s.getTrackedDeviceClass.side_effect = lambda i: self.classes.get(i, openvr.TrackedDeviceClass_Invalid)
        s.getControllerRoleForTrackedDeviceIndex.side_effect = lambda i: hands.get(i, 0)
        s.getStringTrackedDeviceProperty.side_effect = lambda i, prop: f"LHR-{i}"
        s.pollNextEvent.side_effect = self._event
        self.pressed, self.silent = {}, set()
        s.getControllerState.side_effect = self._buttons
        for i in self.classes:
            self.put(i, np.eye(3), (0.1 * i, 1.5, -0.2))

    def put(self, i, r, p, valid=True, result=openvr.TrackingResult_Running_OK, connected=True):
        pose = openvr.TrackedDevicePose_t()
        for row in range(3):
            for column in range(3):
                pose.mDeviceToAbsoluteTracking.m[row][column] = float(r[row, column])
            pose.mDeviceToAbsoluteTracking.m[row][3] = float(p[row])
        pose.bPoseIsValid, pose.eTrackingResult, pose.bDeviceIsConnected = valid, result, connected
        self.poses[i] = pose

    def _fill(self, universe, seconds, array):
        assert universe == openvr.TrackingUniverseStanding and seconds == 0.0
        for i, pose in self.poses.items():
            array[i] = pose

    def _buttons(self, i):
        return i not in self.silent, openvr.VRControllerState_t(ulButtonPressed=self.pressed.get(i, 0))

    def _event(self, event):
        if not self.events:
            return False
        event.eventType = self.events.pop(0)
        return True


def test_devices_find_their_roles_and_axes():
    fake = Fake()
    out = SteamVrPoses(fake.module).sample()
    np.testing.assert_array_equal(out.state, [TRACKED] * 3 + [LOST] * (R - 3))
    np.testing.assert_allclose(out.positions[1], (0.2, -0.3, 1.5), atol=1e-6)  # −z, −x, y
    np.testing.assert_allclose(out.rotations[1], (1, 0, 0, 0), atol=1e-6)
    assert out.sampled_ns[0] == out.stamp_ns and out.sampled_ns[3] == 0
    fake.module.init.assert_called_once_with(openvr.VRApplication_Background)


def test_a_role_that_steamvr_names_needs_no_serial_number():
    fake = Fake()
    text = {openvr.Prop_ControllerType_String: "vive_tracker_left_elbow", openvr.Prop_SerialNumber_String: "LHR-7"}
    fake.system.getStringTrackedDeviceProperty.side_effect = lambda i, prop: text[prop]
    poses = SteamVrPoses(fake.module)
    assert poses.sample().state[ROLES.index("left_forearm")] == TRACKED
    assert poses.unnamed_trackers() == []
    text[openvr.Prop_ControllerType_String] = "vive_tracker_chest"
    fake.events.append(openvr.VREvent_TrackedDeviceRoleChanged)
    assert poses.sample().state[ROLES.index("chest")] == TRACKED


@pytest.mark.parametrize("seed", range(20))
def test_rotations_survive_the_change_of_axes(seed):
    """A device's forward axis is −z in OpenVR and x in ROS; both signs and half turns are included."""
    rng = np.random.default_rng(seed)
    axis = rng.normal(size=3)
    q = rot.exp(axis / np.linalg.norm(axis) * [np.pi, np.pi - 1e-7, 3.0, 1e-9, 0.7][seed % 5])
    m = rot.to_matrix(q)
    fake = Fake()
    fake.put(HMD, m, (0, 0, 0.5))
    out = SteamVrPoses(fake.module).sample()
    ahead = m @ (0, 0, -1)
    np.testing.assert_allclose(
        rot.rotate(out.rotations[0], np.array([1.0, 0, 0])), (-ahead[2], -ahead[0], ahead[1]), atol=1e-6
    )
    up = m @ (0, 1, 0)
    np.testing.assert_allclose(rot.rotate(out.rotations[0], np.array([0, 0, 1.0])), (-up[2], -up[0], up[1]), atol=1e-6)


def test_generic_trackers_by_serial_number():
    fake = Fake()
    poses = SteamVrPoses(fake.module, {"waist": "LHR-7"})
    assert poses.sample().state[ROLES.index("waist")] == TRACKED
    assert poses.unnamed_trackers() == []
    other = SteamVrPoses(fake.module)
    other.sample()
    assert other.unnamed_trackers() == ["LHR-7"]
    with pytest.raises(MmRosError, match="'tail' is not among"):
        SteamVrPoses(fake.module, {"tail": "LHR-7"})


def test_what_is_not_seen_is_said():
    fake = Fake()
    fake.put(LEFT, np.eye(3), (0, 1, 0), result=openvr.TrackingResult_Running_OutOfRange)
    fake.put(RIGHT, np.eye(3), (0, 1, 0), valid=False)
    assert list(SteamVrPoses(fake.module).sample().state[:3]) == [TRACKED, EXTRAPOLATED, LOST]
    fake.put(RIGHT, np.eye(3), (0, 1, 0), connected=False)
    assert SteamVrPoses(fake.module).sample().state[2] == LOST


def test_recentring_is_a_new_epoch_and_quit_is_obeyed():
    fake = Fake()
    poses = SteamVrPoses(fake.module)
    assert poses.sample().epoch == 0
    fake.events = [openvr.VREvent_StandingZeroPoseReset]
    assert poses.sample().epoch == 1
    fake.events = [openvr.VREvent_Quit]
    with pytest.raises(Quit):
        poses.sample()
    fake.system.acknowledgeQuit_Exiting.assert_called_once_with()


def test_grip_buttons_of_both_controllers():
    fake = Fake()
    poses = SteamVrPoses(fake.module)
    grip, trigger = 1 << openvr.k_EButton_Grip, 1 << openvr.k_EButton_SteamVR_Trigger
    for pressed, held in (
        ({}, (False, False)), ({LEFT: grip}, (True, False)), ({LEFT: trigger, RIGHT: grip | trigger}, (False, True)),
        ({LEFT: grip, RIGHT: grip}, (True, True)), ({HMD: grip, PUCK: grip}, (False, False)),
    ):  # fmt: skip
        fake.pressed = pressed
        poses.sample()
        assert poses.grips == held
    fake.pressed, fake.silent = {LEFT: grip, RIGHT: grip}, {RIGHT}
    poses.sample()
    assert poses.grips == (True, None)
    fake.silent = set()
    fake.put(LEFT, np.eye(3), (0, 1, 0), connected=False)
    fake.pressed = {LEFT: grip}
    poses.sample()
    assert poses.grips == (None, False)


def test_errors_without_text_get_one():
    error = type("InitError_Init_NoServerForBackgroundApp", (Exception,), {"error_value": 121})()
    assert describe(error) == "SteamVR is not running (121)"
    assert "Odd" in describe(type("OddError", (Exception,), {"error_value": 3})())


def test_lines_between_the_processes():
    frame = TrackerFrame(123, 4)
    frame.positions[0], frame.state[0], frame.sampled_ns[0] = (1, 2, 3), TRACKED, 123
    back, _ = frame_of(line_of(frame))
    for grips in ((False, True), (None, False)):
        assert frame_of(line_of(frame, grips))[1] == grips
    np.testing.assert_array_equal(back.positions[0], frame.positions[0])
    assert (back.stamp_ns, back.epoch, list(back.state)) == (123, 4, [TRACKED, *[LOST] * (R - 1)])
    assert frame_of(json.dumps({"status": "gone"})) == "gone"


def until(condition, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_process_is_restarted_when_it_dies():
    """A fake worker prints one sample and ends: each start is an epoch, and other lines on stdout are ignored."""
    line = line_of(TrackerFrame(time.monotonic_ns(), 0))
    source = SteamVrSource(command=[sys.executable, "-c", f"print('noise'); print('''{line}'''); raise SystemExit(1)"])
    woken = []
    source.wake = lambda: woken.append(1)
    source.open()
    try:
        epochs = []

        def polled():
            frame = source.poll(time.time_ns())
            if frame is not None:
                epochs.append(frame.epoch)
                assert abs(frame.stamp_ns - time.time_ns()) < 60e9
            return len(epochs) >= 2

        until(polled)
        assert epochs[1] > epochs[0] and len(woken) >= 2
        assert "ended with code 1" in source.status() or source.status() == ""
    finally:
        source.close()


def test_without_steamvr_the_real_worker_says_so():
    """The real process, the real library, no SteamVR."""
    source = SteamVrSource()
    source.open()
    try:
        until(lambda: "SteamVR" in source.status() and "not connected" not in source.status())
        assert source.poll(time.time_ns()) is None
    finally:
        source.close()


@pytest.mark.parametrize("line", ["5", '"text"', "[1]", '{"t": 1, "epoch": 0, "devices": [[99, 2, 0]]}', "{"])
def test_what_the_library_prints_itself_does_not_end_the_thread(line):
    source = SteamVrSource(command=["true"])
    source._take(line)
    assert source.poll(0) is None
