"""SteamVR source with the real libopenvr_api and a small client library of our own in the place of SteamVR.

The package `openvr`, its library, the loading of `vrclient.so`, the interface tables, structures and error codes are
real. What SteamVR itself does, and hardware, are not tested.
"""

import ctypes
import json
import mmap
import os
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from processes import PATIENCE_S

from mm_ros.body.types import EXTRAPOLATED, LOST, ROLES, TRACKED
from mm_ros.maths import rotations as rot
from mm_ros.tracking.sources import axes
from mm_ros.tracking.sources.steamvr import SteamVrSource

openvr = pytest.importorskip("openvr", reason="openvr is not installed (extra 'steamvr')")
COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler: apt install gcc")

HMD, LEFT, RIGHT, PUCK = 0, 3, 4, 7
DEVICES, EVENTS = 64, 16


class Device(ctypes.Structure):
    _fields_ = [
        ("matrix", ctypes.c_float * 12), ("velocity", ctypes.c_float * 3), ("turning", ctypes.c_float * 3),
        ("result", ctypes.c_int32), ("valid", ctypes.c_uint8), ("connected", ctypes.c_uint8),
        ("pad", ctypes.c_uint8 * 2), ("kind", ctypes.c_int32), ("hand", ctypes.c_int32), ("pressed", ctypes.c_uint64),
        ("serial", ctypes.c_char * 32), ("controller", ctypes.c_char * 32),
    ]  # fmt: skip


class World(ctypes.Structure):
    """`struct world` of vrclient.c, in a file that both processes map."""

    _fields_ = [
        ("init_error", ctypes.c_int32), ("universe", ctypes.c_int32), ("seconds", ctypes.c_float),
        ("events_written", ctypes.c_uint32), ("events_read", ctypes.c_uint32), ("quits", ctypes.c_uint32),
        ("inits", ctypes.c_uint32), ("cleanups", ctypes.c_uint32), ("application", ctypes.c_int32),
        ("events", ctypes.c_uint32 * EVENTS), ("devices", Device * DEVICES),
    ]  # fmt: skip

    def send(self, event: int) -> None:
        self.events[self.events_written % EVENTS] = event
        self.events_written += 1

    def put(self, i, position, rotation, valid=True, result=openvr.TrackingResult_Running_OK, connected=True):
        d = self.devices[i]
        d.matrix[:] = np.column_stack([rot.to_matrix(np.asarray(rotation, float)), position]).ravel().tolist()
        d.valid, d.result, d.connected = valid, result, connected


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    """Folder of a SteamVR installation with the compiled library."""
    folder = tmp_path_factory.mktemp("SteamVR")
    places = {name: i for i, (name, _) in enumerate(openvr.IVRSystem_FnTable._fields_)}
    wanted = (
        "getDeviceToAbsoluteTrackingPose", "getControllerRoleForTrackedDeviceIndex", "getTrackedDeviceClass",
        "getStringTrackedDeviceProperty", "pollNextEvent", "acknowledgeQuit_Exiting", "getControllerState",
    )  # fmt: skip
    defines = [f"-DTABLE_{name}={places[name]}" for name in wanted]
    defines += [f"-DTABLE_LENGTH={len(places)}", f'-DSYSTEM="{openvr.IVRSystem_Version}"']
    out = folder / "bin" / "linux64" / "vrclient.so"
    out.parent.mkdir(parents=True)
    source = Path(__file__).with_name("vrclient.c")
    command = [COMPILER, "-std=c11", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(out), *defines, str(source)]
    subprocess.run(command, check=True, timeout=120)
    return folder


@pytest.fixture
def world(library, tmp_path, monkeypatch):
    path, registry = tmp_path / "world", tmp_path / "openvrpaths.vrpath"
    path.write_bytes(bytes(ctypes.sizeof(World)))
    registry.write_text(json.dumps({"runtime": [str(library)], "config": [str(tmp_path)], "log": [str(tmp_path)]}))
    monkeypatch.setenv("VR_PATHREG_OVERRIDE", str(registry))
    monkeypatch.setenv("MM_ROS_TEST_VR_WORLD", str(path))
    for name in ("VR_OVERRIDE", "VR_CONFIG_PATH", "VR_LOG_PATH"):
        monkeypatch.delenv(name, raising=False)
    with path.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    made = World.from_buffer(memory)
    hands = {LEFT: openvr.TrackedControllerRole_LeftHand, RIGHT: openvr.TrackedControllerRole_RightHand}
    for i, kind in (
        (HMD, openvr.TrackedDeviceClass_HMD), (LEFT, openvr.TrackedDeviceClass_Controller),
        (RIGHT, openvr.TrackedDeviceClass_Controller), (PUCK, openvr.TrackedDeviceClass_GenericTracker),
    ):  # fmt: skip
        d = made.devices[i]
        d.kind, d.hand, d.serial = kind, hands.get(i, 0), f"LHR-{i}".encode()
        made.put(i, (0.1 * i, 1.5, -0.2), (1, 0, 0, 0))
    return made


class Reader:
    """The source, with its worker process and the real library in it."""

    def __init__(self, **options) -> None:
        self.source, self.frame = SteamVrSource(**options), None
        self.source.open()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_) -> None:
        self.source.close()

    def until(self, condition, what):
        end = time.monotonic() + PATIENCE_S
        while True:
            self.frame = self.source.poll(time.time_ns()) or self.frame
            if self.frame is not None and condition(self.frame):
                return self.frame
            assert time.monotonic() < end, f"{what}: {self.source.status()}"
            time.sleep(0.005)

    def until_said(self, words):
        end = time.monotonic() + PATIENCE_S
        while words not in self.source.status():
            assert time.monotonic() < end, f"'{words}' is not in '{self.source.status()}'"
            time.sleep(0.01)


def test_poses_roles_states_and_events_through_the_real_library(world):
    rng = np.random.default_rng(5)
    waist = ROLES.index("waist")
    with Reader() as reader:
        reader.until_said("trackers without a role: LHR-7")
        world.devices[PUCK].controller = b"vive_tracker_waist"
        world.send(openvr.VREvent_TrackedDeviceRoleChanged)
        for _ in range(5):
            placed = {}
            for role, i in ((0, HMD), (1, LEFT), (2, RIGHT), (waist, PUCK)):
                q = rng.normal(size=4)
                placed[role] = rng.uniform(-2, 2, 3), q / np.linalg.norm(q)
                world.put(i, *placed[role])

            def arrived(frame, placed=placed):
                return (frame.state[list(placed)] == TRACKED).all() and all(
                    np.abs(frame.positions[role] - axes.position(*p)).max() <= 1e-6
                    and abs(frame.rotations[role] @ rot.normalize(np.array(axes.rotation(*q[[1, 2, 3, 0]])))) > 1 - 1e-6
                    for role, (p, q) in placed.items()
                )

            reader.until(arrived, f"the poses {placed}")
        assert world.universe == openvr.TrackingUniverseStanding and world.seconds == 0.0
        assert world.application == openvr.VRApplication_Background

        world.devices[RIGHT].pressed = 1 << openvr.k_EButton_Grip
        reader.until(lambda f: reader.source.grips == (False, True), "the right grip is held")
        world.devices[RIGHT].pressed = 1 << openvr.k_EButton_System
        reader.until(lambda f: reader.source.grips == (False, False), "the grip is released")

        still = ((0, 1, 0), (1, 0, 0, 0))
        world.put(LEFT, *still, result=openvr.TrackingResult_Running_OutOfRange)
        world.put(RIGHT, *still, valid=False)
        world.put(PUCK, *still, connected=False)
        reader.until(lambda f: list(f.state[[1, 2, waist]]) == [EXTRAPOLATED, LOST, LOST], "the states")

        first = reader.frame.epoch
        world.send(openvr.VREvent_StandingZeroPoseReset)
        reader.until(lambda f: f.epoch > first, "a new epoch after the re-centring")
        world.send(openvr.VREvent_Quit)
        reader.until_said("SteamVR was closed")
        assert world.quits == 1
        reader.until(lambda f: world.inits == 2 and world.cleanups == 1, "the worker initializes the library again")


def test_real_error_codes_have_a_sentence_and_the_worker_recovers(world, tmp_path):
    registry = Path(os.environ["VR_PATHREG_OVERRIDE"])
    installed = registry.read_text()
    world.init_error = 121
    with Reader(serials={"left_foot": "LHR-7"}) as reader:
        reader.until_said("SteamVR is not running (121)")
        world.init_error = 108
        reader.until_said("SteamVR found no headset (108)")
        registry.unlink()
        reader.until_said("SteamVR is not installed (110)")
        registry.write_text(json.dumps({"runtime": [str(tmp_path / "none")], "config": ["/"], "log": ["/"]}))
        reader.until_said("SteamVR is not installed (100)")
        assert reader.source.poll(time.time_ns()) is None
        world.init_error = 0
        registry.write_text(installed)
        frame = reader.until(lambda f: f.state[0] == TRACKED, "poses of the runtime that came back")
        assert frame.state[ROLES.index("left_foot")] == TRACKED
