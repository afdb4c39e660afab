"""Make small valid files of each format that mm_ros reads, and define the functions that open damaged copies."""

from __future__ import annotations

import io
import os
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.sealed_onnx import unsealed
from mm_ros.base.share import share_folder
from mm_ros.body.clip import Clip
from mm_ros.cli.main import main
from mm_ros.facing.model_file import MODELS, OnnxModel
from mm_ros.matching.model_file import DEFAULT_MODEL, LearnedModel
from mm_ros.motion.build import BuildOptions, build_database
from mm_ros.motion.bvh.reader import format_bvh
from mm_ros.motion.feature_files import format_layout, read_layout
from mm_ros.motion.files import write_database
from mm_ros.motion.importing.export import to_bvh
from mm_ros.motion.procedural import make_clips
from mm_ros.robot.figure import read_figure
from mm_ros.sessions.session import write_session
from mm_ros.steps.estimator import StepSettings
from mm_ros.steps.model_file import load_step_model
from mm_ros.tracking.files import hands_file, read_calibration, read_hands, write_calibration, write_hands
from mm_ros.tracking.hands import FittedHands
from mm_ros.tracking.session_making import session_of_clips
from mm_ros.web.headset import certificates, wire


@dataclass(frozen=True)
class Format:
    """File format to test. `seeds` are contents of valid files; any exception of `open_file` except MmRosError is a
    finding.

    The number of tested files is multiplied by `share`, which is small for formats in which each file starts a program.
    """

    name: str
    file: str  # name under which the damaged file is written
    seeds: tuple[bytes, ...]
    open_file: Callable[[Path], object]
    text: bool = False
    share: float = 1.0


def info(path: Path) -> None:
    """Run `mm_ros info FILE`, which must accept the file or refuse it with exit code 2."""
    if main(["info", str(path)]) not in (0, 2):
        raise AssertionError("unexpected exit code")


def from_csv(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        main(["session", "from-csv", str(path), "-o", f"{folder}/session"])


def import_with(option: str, motion: Path) -> Callable[[Path], object]:
    return lambda path: main(["import", str(motion), option, str(path), "--quiet"])


def database_with(motion: Path) -> Callable[[Path], object]:
    """Return a function that reads a damaged feature layout, and builds a database with it."""

    def build(path: Path) -> None:
        read_layout(path)
        main(["import", str(motion), "--features", str(path), "-o", f"{path}.mmdb", "--force", "--quiet"])

    return build


def motion_of(folder: Path, clip: Clip) -> Path:
    path = folder / "long_01.bvh"
    path.write_text(format_bvh(to_bvh(clip.cut(0, 150))))
    return path


def robot(path: Path) -> None:
    read_figure(path)


def robot_beside(urdf: Path) -> Callable[[Path], object]:
    return lambda path: read_figure(urdf, path)


def network(path: Path) -> None:
    info(path)
    OnnxModel(path)


def steps(path: Path) -> None:
    load_step_model(StepSettings(steps_model=str(path)))


def hands(path: Path) -> None:
    """Read the damaged file under the name that mm_ros gives to the file of a user's hands."""
    os.environ["MM_ROS_USERS"] = str(path.parent)
    target = hands_file("default", "openxr")
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(path.read_bytes())
    read_hands("default", "openxr")


def certificate(path: Path) -> None:
    for read in (certificates.names_of, certificates.ends, certificates._lasts):
        read(path)


def page_message(path: Path) -> None:
    """Read a binary message of the headset page as its server does, and check that its numbers are plausible."""
    raw = path.read_bytes()
    readers = {
        wire.FRAME: wire.read_frame, wire.PONG: wire.read_pong, wire.STEER: wire.read_steering,
        wire.BODY: wire.read_body,
    }  # fmt: skip
    read = readers.get(raw[0] if raw else 0)
    made = read(raw) if read is not None else None
    if isinstance(made, wire.Steering):
        assert np.isfinite(made[:4]).all(), "steering with a number that is not finite"
    if isinstance(made, wire.PageFrame):
        seen = [made.poses[7 * k : 7 * k + 7] for k, state in enumerate(made.states) if state]
        assert np.isfinite(seen).all() and np.isfinite(made[4:7]).all(), "frame with a number that is not finite"


def session_folder(path: Path) -> None:
    """Read the bag to which the damaged file metadata.yaml belongs."""
    main(["info", str(path.parent)])


URDF = """<?xml version="1.0"?>
<robot name="small">
  <link name="base"/><link name="leg"/><link name="foot"/><link name="lamp"/>
  <joint name="left_hip_pitch" type="revolute"><origin xyz="0 0.1 0" rpy="0 0.1 0"/><parent link="base"/>
    <child link="leg"/><axis xyz="0 1 0"/><limit lower="-1.5" upper="1.5" effort="10" velocity="5"/></joint>
  <joint name="left_ankle_pitch" type="continuous"><origin xyz="0 0 -0.4"/><parent link="leg"/>
    <child link="foot"/><axis xyz="0 1 0"/></joint>
  <joint name="lamp" type="fixed"><parent link="base"/><child link="lamp"/><axis xyz="0 0 0"/></joint>
</robot>
"""
HUMANOID = share_folder() / "config" / "robots" / "mm_humanoid.urdf"
MJCF = """<mujoco model="small">
  <compiler angle="degree" autolimits="true"/>
  <default><joint damping="1"/><default class="leg"><joint axis="0 1 0" range="-90 90"/></default></default>
  <worldbody>
    <body name="base" pos="0 0 0.8"><freejoint/><inertial pos="0 0 0" mass="5" diaginertia="1 1 1"/>
      <body name="left_thigh" pos="0 0.1 0"><joint name="left_hip_pitch" class="leg"/>
        <geom type="capsule" size="0.05" fromto="0 0 0 0 0 -0.4"/>
        <body name="left_shin" pos="0 0 -0.4"><joint name="left_knee" class="leg"/>
          <body name="left_foot" pos="0 0 -0.4"><joint name="left_ankle_pitch" class="leg"/>
            <geom type="box" size="0.1 0.04 0.02" pos="0.03 0 -0.02"/></body></body></body>
      <body name="right_thigh" pos="0 -0.1 0" euler="0 0 5"><joint name="right_hip_pitch" class="leg"/>
        <body name="right_shin" pos="0 0 -0.4"><joint name="right_knee" class="leg"/>
          <body name="right_foot" pos="0 0 -0.4"><joint name="right_ankle_pitch" class="leg"/></body></body></body>
    </body>
  </worldbody>
  <actuator><position joint="left_knee" kp="10"/></actuator>
</mujoco>
"""
ROBOT_YAML = """facing: 0
joints: {left_upper_leg: [left_hip_pitch_joint]}
ignore: [head_yaw_joint]
links: {pelvis: pelvis}
sole: {height: 0.04, toe: 0.14, heel: 0.06, half_width: 0.04}
limits: {left_knee_joint: [-5, 120]}
"""
USERS = """anna: {source: synthetic, seed: 3, place: [0, 1.5]}
berta: {source: openxr, place: [5, 0]}
clara:
"""
OPTIONS = """up: Y+
unit_to_m: 0.01
rate: 60
reference: zero pose
subject: 7
tags: [calm, [limp, 0.1, 0.2]]
files:
  "walk_*.bvh": {skip_start: 1, floor_m: 0.0, swap_left_right: false, leave_out: false}
"""
CSV = "t,role,x,y,z,qx,qy,qz,qw\n" + "".join(
    f"{i / 90:.4f},{role},{i * 1e-3:.4f},{y},{z},0,0,0,1\n"
    for i in range(20)
    for role, y, z in (("head", 0, 1.7), ("left_hand", 0.3, 1.0), ("right_hand", -0.3, 1.0))
)


def formats(folder: Path) -> list[Format]:
    """Return all file formats; files that must exist on the disk are written to `folder`."""
    whole = next(c for c in make_clips(0) if c.name == "walk 1.3")
    urdf = folder / "whole.urdf"
    urdf.write_text(HUMANOID.read_text())
    clip = whole.cut(0, 40)
    bvh = format_bvh(to_bvh(clip)).encode()
    motion = folder / "walk_01.bvh"
    motion.write_bytes(bvh)
    database = folder / "small.mmdb"
    write_database(build_database([whole.cut(0, 150)], options=BuildOptions(stooped=0.0)), database)
    joints = "".join(f"{name}: {name}\n" for name in clip.skeleton.names[1:])
    bags = _bags(folder, clip)
    return [
        Format("bvh", "walk_01.bvh", (bvh,), info, True),
        Format("csv", "poses.csv", (CSV.encode(),), from_csv, True),
        Format("features", "features.yaml", (_features(),), database_with(motion_of(folder, whole)), True),
        Format("options", "options.yaml", (OPTIONS.encode(),), import_with("--options", motion), True),
        Format("map", "map.yaml", (joints.encode(),), import_with("--map", motion), True),
        Format("calibration", "user.yaml", (_calibration(folder),), lambda p: read_calibration("", p), True),
        Format("urdf", "robot.urdf", (URDF.encode(),), robot, True),
        Format("mjcf", "robot.xml", (MJCF.encode(),), robot, True),
        Format("robot_yaml", "robot.yaml", (ROBOT_YAML.encode(),), robot_beside(urdf), True),
        Format("hands", "hands.yaml", (_hands(folder),), hands, True),
        Format("steps", "steps.onnx", _with_and_without_checksum(MODELS / "steps.onnx"), steps),
        Format("certificate", "leaf.crt", (_certificate(folder),), certificate, True, 0.05),
        Format("page", "message.bin", _page_messages(), page_message),
        *_ros_formats(clip),
        Format("mmdb", "small.mmdb", (database.read_bytes(),), info),
        Format("onnx", "facing.onnx", _with_and_without_checksum(MODELS / "facing_paper_r1.onnx"), network),
        Format("mcap", "s.mcap", tuple(bags[f"mcap {c}"] for c in ("none", "storage", "message")), info),
        Format("mcap_zstd", "s.mcap.zstd", (bags["mcap file"],), info),
        Format("learned", "learned.onnx", _with_and_without_checksum(DEFAULT_MODEL), LearnedModel),
        Format("sqlite3", "s.db3", (bags["sqlite3 none"],), info),
        Format("metadata", "metadata.yaml", (bags["metadata"],), session_folder, True),
        Format("zip", "walks.zip", (_zip(bvh),), info),
        Format("tar", "walks.tar.gz", (_tar(bvh, "gz"), _tar(bvh, "xz")), info),
    ]


def _with_and_without_checksum(path: Path) -> tuple[bytes, ...]:
    """Return the content of a file, and four copies without its checksum, which would detect nearly all damage."""
    content = path.read_bytes()
    return (content, *[unsealed(content)] * 4)


def _features() -> bytes:
    from mm_ros.motion.features import default_layout

    return format_layout(default_layout()).encode()


def _calibration(folder: Path) -> bytes:
    from mm_ros.body.types import Calibration

    return write_calibration(Calibration(), folder / "user.yaml").read_bytes()


def _hands(folder: Path) -> bytes:
    os.environ["MM_ROS_USERS"] = str(folder / "users")
    fitted = FittedHands([[0.8, 0.0, -0.6], None], [[0.01, 0.02, 0.0], None])
    return write_hands("default", "openxr", fitted).read_bytes()


def _certificate(folder: Path) -> bytes:
    os.environ["MM_ROS_HEADSET"] = str(folder / "headset")
    return certificates.certificates().leaf.read_bytes()


def _page_messages() -> tuple[bytes, ...]:
    """Return one valid message of each kind that the headset page sends to its server."""
    still = (0.0, 1.6, 0.0, 0.0, 0.0, 0.0, 1.0)
    frame = wire._FRAME.pack(wire.FRAME, 0b101010, 0, 0, 7, 1234.5, 11.0, 2.0, *still * 3, 99)
    moved = wire._FRAME.pack(wire.FRAME, 0b101010, wire.MOVED, 1, 8, 1245.6, 11.0, 2.0, *still * 3, 99)
    return (
        frame,
        moved + wire._TRANSFORM.pack(0.1, 0.0, 0.2, 0.0, 0.0, 0.0, 1.0),
        wire._PONG.pack(wire.PONG, 3, 1234.5),
        wire._STEER.pack(wire.STEER, wire.ACTIVE | wire.TAKES, 7, 0.5, -0.5, 1.5),
        struct.pack("<BBHd", wire.BODY, 0, 0, 0.0)[:4] + struct.pack("<d", 1234.5) + struct.pack("<14f", *still * 2),
    )


def _ros_formats(clip: Clip) -> list[Format]:
    """Return the formats whose readers need ROS (messages, and files for `--users`), or [] if ROS is not installed."""
    if find_spec("rclpy") is None or find_spec("mm_ros.msg") is None:
        return []
    from fuzz.messages import messages, take
    from mm_ros.ros.several import read_users

    return [
        Format("message", "message.cdr", messages(clip), take),
        Format("users", "users.yaml", (USERS.encode(),), lambda p: read_users(str(p)), True),
    ]


def _bags(folder: Path, clip: object) -> dict[str, bytes]:
    session = session_of_clips([clip])  # type: ignore[list-item]
    session.frames = session.frames[:20]
    session.truth = session.truth[:3]
    out: dict[str, bytes] = {}
    kinds = (("mcap", "none"), ("mcap", "storage"), ("mcap", "message"), ("mcap", "file"), ("sqlite3", "none"))
    for storage, compression in kinds:
        path = folder / f"{storage}_{compression}"
        write_session(path, session, storage, compression)
        file = next(p for p in path.iterdir() if p.name != "metadata.yaml")
        out[f"{storage} {compression}"] = file.read_bytes()
        if storage == "mcap" and compression == "none":
            out["metadata"] = (path / "metadata.yaml").read_bytes()
    return out


def _zip(bvh: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("walks/walk_01.bvh", bvh)
        archive.writestr("readme.txt", "a walk")
    return out.getvalue()


def _tar(bvh: bytes, how: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{how}") as archive:
        entry = tarfile.TarInfo("walks/walk_01.bvh")
        entry.size = len(bvh)
        archive.addfile(entry, io.BytesIO(bvh))
    return out.getvalue()


def opened(kind: Format, path: Path) -> None:
    """Open a damaged file, and ignore MmRosError, which is the right answer."""
    try:
        kind.open_file(path)
    except MmRosError:
        pass
