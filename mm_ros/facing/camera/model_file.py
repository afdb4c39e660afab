"""Extracts the two networks of BlazePose from MediaPipe's wheel (Apache-2.0) into the cache; runs them by LiteRT."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

from mm_ros.base.cache import locked, writable_root
from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.base.files import write_whole
from mm_ros.base.own_python import module_command
from mm_ros.body.types import F32

# WHEEL is the last version of MediaPipe whose Python wheel contains the networks of BlazePose. The wheel is only
# unpacked, so its Python version and platform do not matter.
WHEEL = "mediapipe==0.10.21"
DOWNLOAD = ("--no-deps", "--only-binary=:all:", "--python-version", "3.11", "--platform", "manylinux_2_28_x86_64")
LARGEST = 64 << 20  # maximum size of a network file that is read [bytes]; the larger network has 6 million bytes
DETECTOR, LANDMARKS = "pose_detection.tflite", "pose_landmark_full.tflite"
FILES: dict[str, str] = {  # SHA-256 hash of each network file
    DETECTOR: "9ba9dd3d42efaaba86b4ff0122b06f29c4122e756b329d89dca1e297fd8f866c",
    LANDMARKS: "e9a5c5cb17f736fafd4c2ec1da3b3d331d6edbe8a0d32395855aeb2cdfd64b9f",
}


def models_folder() -> Path:
    return writable_root() / "blazepose"


def model_paths() -> tuple[Path, Path]:
    """Return the paths of the detection network and of the landmark network, after a check of their SHA-256."""
    folder = models_folder()
    for name, digest in FILES.items():
        if not (folder / name).is_file():
            raise MmRosError(
                f"the pose estimator's networks are not in {folder}. They are fetched by: {setup_command('pose')}"
            )
        if digest_of(folder / name) != digest:
            raise MmRosError(f"{folder / name} has a wrong SHA-256. Remove it and run: {setup_command('pose')}")
    return folder / DETECTOR, folder / LANDMARKS


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fetch_models(wheel: Path | None = None) -> Path:
    """Extract the networks from `wheel`, or from the wheel that pip downloads, and return their folder."""
    with locked("blazepose"), tempfile.TemporaryDirectory() as folder:
        extract(wheel or download(Path(folder)), models_folder())
    model_paths()
    return models_folder()


def download(folder: Path) -> Path:
    command = module_command("pip", "download", "-q", *DOWNLOAD, "-d", str(folder), WHEEL)
    done = subprocess.run(command, capture_output=True, text=True)
    found = sorted(folder.glob("*.whl"))
    if done.returncode or not found:
        reason = (done.stderr.strip().splitlines() or ["pip printed no error"])[-1]
        raise MmRosError(f"pip could not download {WHEEL}: {reason}")
    return found[0]


def extract(wheel: Path, folder: Path) -> None:
    if not zipfile.is_zipfile(wheel):
        raise MmRosError(f"{wheel} is not a wheel")
    with zipfile.ZipFile(wheel) as archive:
        inside = {Path(n).name: n for n in archive.namelist()}
        for name, digest in FILES.items():
            if name not in inside:
                raise MmRosError(f"{wheel} does not contain {name}; expected {WHEEL}")
            write_whole(folder / name, _checked(archive, inside[name], wheel, digest))


def _checked(archive: zipfile.ZipFile, inside: str, wheel: Path, digest: str) -> bytes:
    try:
        with archive.open(inside) as part:
            data = part.read(LARGEST)
    except (zipfile.BadZipFile, zlib.error, OSError, RuntimeError, NotImplementedError) as error:
        raise MmRosError(f"{wheel}: {inside} cannot be unpacked ({error})") from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise MmRosError(f"{wheel}: {inside} is not the file that {WHEEL} contains (its SHA-256 differs)")
    return data


class TfliteModel:
    """A network file that the library LiteRT runs; `run` returns all outputs of the network for one picture."""

    def __init__(self, path: Path, threads: int = 1) -> None:
        interpreter = _interpreter_class()
        self._run = interpreter(model_path=str(path), num_threads=threads)
        self._run.allocate_tensors()
        self._input = self._run.get_input_details()[0]["index"]
        self._outputs = [d["index"] for d in self._run.get_output_details()]

    def run(self, picture: F32) -> list[F32]:
        self._run.set_tensor(self._input, picture)
        self._run.invoke()
        return [self._run.get_tensor(i) for i in self._outputs]


def _interpreter_class() -> Any:
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise MmRosError(
            f"the pose estimator needs LiteRT ({error}): {setup_command('pose')}. "
            "Other estimators can publish `landmarks` themselves."
        ) from error
    return Interpreter
