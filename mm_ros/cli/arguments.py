"""Command-line options that several verbs share, with one name, unit, type and range for all verbs."""

import argparse
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mm_ros.base.cache import is_writable
from mm_ros.base.errors import MmRosError

PICTURES = (".png", ".svg", ".pdf", ".jpg")


def output_file(text: str) -> Path:
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is a folder; expected a file name")
    if not is_writable(path.parent):
        raise argparse.ArgumentTypeError(f"{path} cannot be written: its folder is not writable and cannot be created")
    return path


def picture_file(text: str) -> Path:
    path = output_file(text)
    if path.suffix.lower() not in PICTURES:
        raise argparse.ArgumentTypeError(f"{path} is not a picture; expected a name ending in {', '.join(PICTURES)}")
    return path


def new_folder(path: Path) -> None:
    """Raise MmRosError if the folder `path` cannot be created or is not empty."""
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise MmRosError(f"{path} exists already and is not overwritten. Remove it or choose another output")
    if not is_writable(path.parent):
        raise MmRosError(f"{path} cannot be created: its folder is not writable")


def avatar(text: str) -> str:
    """Check the name of an avatar, which is a ROS namespace, and return the name without a leading slash."""
    name = text.strip("/")
    if name and not all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", part) for part in name.split("/")):
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a valid ROS namespace; expected letters, digits and _, not starting with a digit"
        )
    return name


@dataclass(frozen=True)
class Number:
    """Type of a command-line option whose value is a number between `low` and `high` in `unit`. Command-line options
    for angles are in degrees."""

    low: float
    high: float
    unit: str
    whole: bool = False

    def __call__(self, text: str) -> float:
        try:
            value = int(text) if self.whole else float(text)
        except ValueError:
            value = math.nan
        if not self.low <= value <= self.high:  # NaN fails too
            kind = "a whole number" if self.whole else "a number"
            unit = "" if self.unit in ("N", "FACTOR", "SHARE") else f" [{self.unit}]"
            raise argparse.ArgumentTypeError(f"expected {kind}{unit}, {self.low:g} to {self.high:g}, came '{text}'")
        return value


SECONDS = Number(0.1, 1e6, "S")
INSTANT = Number(0.0, 1e6, "S")
HZ = Number(1.0, 1000.0, "HZ")
FACTOR = Number(0.001, 1000.0, "FACTOR")
DEGREES = Number(0.0, 180.0, "DEG")
COUNT = Number(0, 1_000_000, "N", whole=True)
POSITIVE = Number(1, 100_000, "N", whole=True)
NUMBERS = {
    "--seconds": SECONDS, "--user": SECONDS, "--start": INSTANT, "--at": INSTANT, "--in": INSTANT, "--timeout": INSTANT,
    "--minutes": Number(0.0, 1440.0, "MIN"), "--rate": HZ, "--rates": HZ, "--true-rate": HZ,
    "--speed": Number(0.01, 100.0, "FACTOR"), "--hour": Number(0.01, 100.0, "FACTOR"),
    "--effort": FACTOR, "--growth": FACTOR, "--scale": Number(0.5, 1.5, "FACTOR"),
    "--noise": Number(0.0, 1.0, "M"), "--position-accuracy": Number(0.0, 10.0, "M"), "--unit": Number(1e-6, 1e3, "M"),
    "--head-height": Number(0.3, 3.0, "M"), "--headset": Number(-1.0, 1.0, "M"),
    "--grips": DEGREES, "--look-around": DEGREES, "--dropouts": Number(0.0, 600.0, "PER_MIN"),
    "--stooped": Number(0.0, 1.0, "SHARE"), "--seed": Number(0, 2**53, "N", whole=True),
    "--jobs": Number(1, 1024, "N", whole=True), "--threads": Number(1, 1024, "N", whole=True),
    "--avatars": Number(1, 64, "N", whole=True), "--per-process": Number(1, 64, "N", whole=True),
    "--wait-for": COUNT, "--folds": COUNT, "--tune": COUNT,
    "--memory": COUNT, "--keys": COUNT, "--rounds": POSITIVE, "-k": POSITIVE, "--variants": POSITIVE,
    "--epochs": POSITIVE, "--batches": POSITIVE, "--units": POSITIVE,
    "--width": POSITIVE, "--latent": POSITIVE, "--members": POSITIVE,
}  # fmt: skip


def add_number(parser: Any, option: str, **more: Any) -> None:
    """Add the option `name` of the table NUMBERS to a parser or an argument group."""
    kind = NUMBERS[option]
    parser.add_argument(option, type=kind, **{"metavar": kind.unit, **more})


def add_database(parser: Any, help: str = "pose database (default: the built-in procedural database)") -> None:
    parser.add_argument("--database", type=Path, metavar="FILE", help=help)


def add_output(parser: Any, help: str, **more: Any) -> None:
    parser.add_argument("-o", "--output", **{"type": Path, "metavar": "PATH", "help": help, **more})


# A line for the help of benchmarks that use the shared motion data by default.
CMU_DATA = (
    "The default motion is CMU motion capture in the folder that the environment variable MM_ROS_DATA names "
    "(docs/evaluation.md, section Data)."
)


def add_motion(parser: Any, option: str, help: str, required: bool = False) -> None:
    parser.add_argument(option, nargs="+", type=Path, metavar="PATH", required=required, help=help)


def add_learned_model(parser: Any) -> None:
    parser.add_argument(
        "--model", default="", metavar="FILE", help="ONNX file of the learned engine (default: the built-in one)"
    )


def port(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"expected a port, 1 to 65535, came '{text}'")
    return int(text)


CAMERA_ANGLES = ("field_of_view", "pitch", "side", "turn_noise")


def add_simulated_camera(parser: Any, help: str, **more: Any) -> None:
    """Add the option `--simulated-camera` to a parser; the function `camera_of` reads its value."""
    parser.add_argument(
        "--simulated-camera", metavar="NAME=VALUE,…",
        help=f"{help}; fields of LandmarkSimulation, angles in degrees: pitch=10,lost=0.3", **more,
    )  # fmt: skip


def camera_of(text: str) -> Any:
    from mm_ros.tracking.landmark_simulation import COMMON, RANGES

    known = {name: type(value) for name, value in vars(COMMON).items()}
    given: dict[str, Any] = {}
    for part in (p for p in text.split(",") if p.strip()):
        name, _, value = (x.strip() for x in part.partition("="))
        if name not in known:
            raise MmRosError(f"--simulated-camera: '{name}' does not exist. Names: {', '.join(known)}")
        try:
            number = float(value)
            given[name] = math.radians(number) if name in CAMERA_ANGLES else known[name](number)
        except (ValueError, OverflowError):
            raise MmRosError(f"--simulated-camera: {name}: expected a number, came '{value}'") from None
        if name in CAMERA_ANGLES:
            low, high = (math.degrees(limit) for limit in RANGES[name])
            if not low <= number <= high:
                raise MmRosError(f"--simulated-camera: {name}: expected {low:.0f} to {high:.0f} degrees, came {value}")
    return replace(COMMON, **given)


def add_storage(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--storage", choices=("mcap", "sqlite3"), default="mcap", help="bag format (default: %(default)s)"
    )
    parser.add_argument(
        "--compression",
        choices=("none", "message", "file", "storage"),
        default="none",
        help="what zstd compresses (default: %(default)s)",
    )
