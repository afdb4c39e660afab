"""Small valid files of each format, made by this project, and the function that opens each."""

from __future__ import annotations

import io
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mm_ros.base.errors import MmRosError
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
from mm_ros.tracking.files import read_calibration, write_calibration
from mm_ros.tracking.session_making import session_of_clips


@dataclass(frozen=True)
class Format:
    """A file format. `seeds`: contents of valid files. A finding is any exception of `open_file` but MmRosError."""

    name: str
    file: str  # name of the file
    seeds: tuple[bytes, ...]
    open_file: Callable[[Path], object]
    text: bool = False


def info(path: Path) -> None:
    """Run `mm_ros info FILE`, which may refuse the file with exit code 2."""
    if main(["info", str(path)]) not in (0, 2):
        raise AssertionError("unexpected exit code")


def from_csv(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        main(["session", "from-csv", str(path), "-o", f"{folder}/session"])


def import_with(option: str, motion: Path) -> Callable[[Path], object]:
    return lambda path: main(["import", str(motion), option, str(path), "--quiet"])


def database_with(motion: Path) -> Callable[[Path], object]:
    """Read the layout, then build a database with it."""

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


def network(path: Path) -> None:
    info(path)
    OnnxModel(path)


def session_folder(path: Path) -> None:
    """Read the bag of a metadata.yaml, with its storage file in the same folder."""
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
    """All formats. `folder` is for files that must exist on the disk."""
    whole = next(c for c in make_clips(0) if c.name == "walk 1.3")
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
        Format("mmdb", "small.mmdb", (database.read_bytes(),), info),
        Format("onnx", "facing.onnx", ((MODELS / "facing_paper_r1.onnx").read_bytes(),), network),
        Format("mcap", "s.mcap", tuple(bags[f"mcap {c}"] for c in ("none", "storage", "message")), info),
        Format("mcap_zstd", "s.mcap.zstd", (bags["mcap file"],), info),
        Format("learned", "learned.onnx", (DEFAULT_MODEL.read_bytes(),), LearnedModel),
        Format("sqlite3", "s.db3", (bags["sqlite3 none"],), info),
        Format("metadata", "metadata.yaml", (bags["metadata"],), session_folder, True),
        Format("zip", "walks.zip", (_zip(bvh),), info),
        Format("tar", "walks.tar.gz", (_tar(bvh, "gz"), _tar(bvh, "xz")), info),
    ]


def _features() -> bytes:
    from mm_ros.motion.features import default_layout

    return format_layout(default_layout()).encode()


def _calibration(folder: Path) -> bytes:
    from mm_ros.body.types import Calibration

    return write_calibration(Calibration(), folder / "user.yaml").read_bytes()


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
    """Open a file; MmRosError is no finding."""
    try:
        kind.open_file(path)
    except MmRosError:
        pass
