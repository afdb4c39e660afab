"""Read the XML text of robot files. Robot files that are too large or too deeply nested are refused. XML entities are
refused, because they could read other files or expand without end."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.files import open_regular
from mm_ros.body.types import F64

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

MOST_BYTES = 32 << 20
MOST_LINKS = 2000
MOST_DEPTH = 400
FARTHEST_M = 1000.0  # Larger numbers than this in a robot file are refused, because the square of 1e200 overflows.


def file_text(path: str | Path) -> str:
    """Return the text of a robot file, or raise MmRosError with the reason if the robot file cannot be read."""
    path = Path(path)
    if not path.exists():
        raise MmRosError(f"{path}: there is no such file")
    try:
        with open_regular(path) as handle:
            data = handle.read(MOST_BYTES + 1)
    except OSError as error:
        raise MmRosError(f"{path}: cannot be read ({error.strerror})") from error
    if len(data) > MOST_BYTES:
        raise MmRosError(f"{path}: is longer than {MOST_BYTES >> 20} MB; expected a robot's links and joints")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MmRosError(f"{path}: is not UTF-8 text (byte {error.start})") from error


def parse(text: str, source: str) -> Element:
    if re.search(r"<!\s*(DOCTYPE|ENTITY)", text, re.IGNORECASE):
        raise MmRosError(f"{source}: declares a DOCTYPE or an entity, which a robot file does not need; it is not read")
    try:
        root = ElementTree.fromstring(text)
    # ElementTree raises ValueError if the XML text states an unknown encoding.
    except (ElementTree.ParseError, ValueError) as error:
        raise MmRosError(f"{source}: not XML: {error}") from None
    depth, level = 0, [root]
    while level:
        depth, level = depth + 1, [child for e in level for child in e]
        if depth > MOST_DEPTH:
            raise MmRosError(f"{source}: its elements are nested deeper than {MOST_DEPTH}")
    return root


def number(e: Element, key: str, where: str, default: str = "0") -> float:
    text = e.get(key, default)
    try:
        value = float(text)
    except ValueError:
        raise MmRosError(f"{where}: {key}=\"{text}\" is not a number") from None
    if math.isnan(value):
        raise MmRosError(f"{where}: {key}=\"{text}\" is not a number")
    return value


def numbers(e: Element | None, key: str, where: str, default: str = "0 0 0") -> F64:
    """Return the three finite numbers in the attribute `key` of the XML element `e`."""
    text = default if e is None else e.get(key, default)
    try:
        out = np.array([float(x) for x in text.split()])
    except ValueError:
        out = np.zeros(0)
    if out.shape != (3,) or not np.isfinite(out).all():
        raise MmRosError(f"{where}: expected three numbers in {key}, came \"{text}\"")
    if np.abs(out).max() > FARTHEST_M:
        raise MmRosError(f"{where}: {key}=\"{text}\" is larger than {FARTHEST_M:.0f}; expected metres or radians")
    return out
