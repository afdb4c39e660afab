"""Reads pictures from a webcam, a video file or a folder.

For each picture, the picture and its time [s] since the start of the video are returned; a webcam's times are None.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.body.types import U8

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
FOLDER_RATE = 30.0  # rate at which the pictures of a folder are played [Hz]
FAILURES = 30  # a webcam counts as failed after this many failed attempts in a row to read a picture

Pictures = Iterator[tuple[U8, float | None]]


def pictures(source: str) -> Pictures:
    """Open `source`, which is the number of a webcam ("0" or "webcam 0"), a video file, a folder or one picture."""
    number = source.removeprefix("webcam ")
    if number.isdigit():
        return _film(int(number), f"webcam {number}", live=True)
    path = Path(source)
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix.lower() in SUFFIXES)
        if not files:
            raise MmRosError(f"{path} has no pictures; expected {', '.join(SUFFIXES)}")
        return ((read_picture(p), i / FOLDER_RATE) for i, p in enumerate(files))
    if not path.is_file():
        raise MmRosError(f"camera '{source}' is neither the number of a webcam nor a file or folder that exists")
    if path.suffix.lower() in SUFFIXES:
        return iter([(read_picture(path), 0.0)])
    return _film(str(path), str(path), live=False)


def read_picture(path: Path) -> U8:
    try:
        from PIL import Image
    except ImportError:
        raise MmRosError(f"reading pictures needs Pillow: {setup_command('pose')}") from None
    try:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB"))
    except OSError as error:
        raise MmRosError(f"{path} is not a picture that can be read: {error}") from error


def _film(device: int | str, name: str, live: bool) -> Pictures:
    """Open the webcam or video before the first picture is read, so that errors are reported at once."""
    return _frames(_opened(device, name), name, live)


def _frames(capture: Any, name: str, live: bool) -> Pictures:
    failures = shown = 0
    try:
        while failures < (FAILURES if live else 1):
            good, picture = capture.read()
            # OpenCV's property 0 (CAP_PROP_POS_MSEC) is the time of the last picture in the video [ms].
            seconds = None if live else float(capture.get(0)) * 1e-3
            failures = 0 if good else failures + 1
            if good:
                shown += 1
                yield np.ascontiguousarray(picture[:, :, ::-1]), seconds
    finally:
        capture.release()
    if live:
        raise MmRosError(f"{name} delivers no more pictures; is it unplugged?")
    if not shown:
        raise MmRosError(f"{name} holds no picture that OpenCV can read; is the file complete?")


def _opened(device: int | str, name: str) -> Any:
    try:
        import cv2
    except ImportError:
        raise MmRosError(f"webcams and videos need OpenCV: {setup_command('webcam')}") from None
    capture = cv2.VideoCapture(device)
    if not capture.isOpened():
        hint = (
            "is it a complete video?"
            if isinstance(device, str)
            else "is it connected, and not in use by another program?"
        )
        raise MmRosError(f"{name} cannot be opened: {hint}")
    return capture
