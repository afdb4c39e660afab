"""Read and write BVH files without converting their axes, unit, joint names or order of channels.

The modules in `motion/importing` convert BVH files to canonical clips. The position channels of a joint have one of
three meanings. Usually, position channels replace the offset of the joint from its parent. Position channels near 0 are
added to the offset if the offset is not near 0. Some software writes the position of a joint, for example of the head,
in the axes of the room.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.base.files import write_whole
from mm_ros.motion.bvh.kernels import ADDS_TO_OFFSET, END, IN_ROOM, SHORT_OR_LONG, nodes_global, parse_numbers

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

CHANNELS = ("Xposition", "Yposition", "Zposition", "Xrotation", "Yrotation", "Zrotation")
_CODES = {name.lower(): code for code, name in enumerate(CHANNELS)}
MOST_BYTES = 2_000_000_000  # maximum size of a BVH file in bytes, about four hours of motion at 120 Hz
MOST = 1e9  # maximum length or angle in a BVH file, because squares of larger numbers may overflow
DEEPEST, MOST_JOINTS = 200, 5000  # maximum numbers of joints in one chain of a skeleton and in the whole skeleton
_LOOKED_AT = 100  # approximate number of frames that decide whether positions are in the axes of the room
# Common frame rates [Hz], the most common one first. The reader takes the first rate that a rounded frame time fits.
USUAL_RATES = (120, 60, 30, 100, 240, 90, 72, 50, 25, 24, 48, 200, 180, 150, 15, 20, 40, 80, 250, 300, 10)


@dataclass(frozen=True)
class Bvh:
    """The content of a BVH file: J joints, E end sites (ends of the last bones), and F frames with C channels."""

    names: tuple[str, ...]
    parents: I64  # (J,)
    offsets: F64  # (J, 3)
    channels: tuple[tuple[int, ...], ...]  # for each joint, its channels as indices into the list CHANNELS
    end_parents: I64  # (E,) index of the joint to which each end site (end of a last bone) belongs
    end_offsets: F64  # (E, 3)
    frame_time: float
    motion: F64  # (F, C)
    path: str = ""
    frame_time_text: str = ""

    def __len__(self) -> int:
        return len(self.motion)

    @cached_property
    def rate(self) -> float:
        return rate_of(self.frame_time, self.frame_time_text)

    @cached_property
    def node_parents(self) -> I64:
        """Index of the parent joint of each node, which is a joint or (after all joints) an end site; −1 for roots."""
        return np.concatenate([self.parents, self.end_parents])

    @cached_property
    def node_offsets(self) -> F64:
        return np.concatenate([self.offsets, self.end_offsets])

    @cached_property
    def position_meanings(self) -> NDArray[np.int8]:
        """Meaning of the position channels of each joint: REPLACES_OFFSET, ADDS_TO_OFFSET or IN_ROOM."""
        out = np.zeros(len(self.names), np.int8)
        at = 0
        few = self.motion[:: max(len(self) // _LOOKED_AT, 1)]
        for j, codes in enumerate(self.channels):
            columns = [at + i for i, c in enumerate(codes) if c < 3]
            axes = [c for c in codes if c < 3]
            at += len(codes)
            if self.parents[j] < 0 or not columns or not len(self):
                continue
            given = np.median(self.motion[:, columns], axis=0)
            away = float(np.linalg.norm(self.offsets[j][axes]))
            if away > 1e-6 and float(np.linalg.norm(given)) < 0.2 * away:
                out[j] = ADDS_TO_OFFSET
            elif sorted(axes) == [0, 1, 2] and self._in_room(j, few, few[:, np.array(columns)[np.argsort(axes)]], out):
                out[j] = IN_ROOM
        return out

    def _in_room(self, joint: int, motion: F64, given: F64, meanings: NDArray[np.int8]) -> bool:
        """Return whether the position channels of a joint hold its position in the room instead of an offset."""
        away = float(np.linalg.norm(self.offsets[joint]))
        length = float(np.median(np.linalg.norm(given, axis=1)))
        varies = float(np.ptp(given, axis=0).max()) > 0.3 * length
        if length <= 2.5 * away or (away < 1e-6 and not varies):
            return False
        parents, _ = self._globals(motion, meanings)
        from_parent = float(np.mean(np.linalg.norm(given - parents[:, self.parents[joint]], axis=1)))
        return from_parent < 0.5 * length and (away < 1e-6 or 0.3 < from_parent / away < 3)

    def globals(self, motion: F64 | None = None) -> tuple[F64, F64]:
        """Return positions (F, N, 3) and rotations (F, N, 4) of joints and end sites in the file's axes and unit."""
        return self._globals(self.motion if motion is None else motion, self.position_meanings)

    def _globals(self, motion: F64, meanings: NDArray[np.int8]) -> tuple[F64, F64]:
        codes = np.array([c for row in self.channels for c in row], np.int64)
        counts = np.array([len(row) for row in self.channels], np.int64)
        return nodes_global(  # type: ignore[no-any-return]
            motion, codes, counts, self.node_parents, self.node_offsets, meanings
        )

    def zero_pose(self) -> F64:
        """Return the positions of joints and end sites in the pose without rotations, with the roots at the origin."""
        out = self.node_offsets.copy()
        for i, p in enumerate(self.node_parents):
            out[i] = out[i] + out[p] if p >= 0 else 0.0
        return out


def rate_of(frame_time: float, text: str = "") -> float:
    """Return the frame rate in Hz for the frame time [s] in a file, which is written as `text`.

    Files often state a frame time with few digits, either rounded ('0.033' means 30 Hz) or truncated ('0.0166' means
    60 Hz). The function returns the common frame rate that the frame time fits. If the frame time fits no common rate,
    the function returns the reciprocal of the frame time, rounded to a whole number if the difference is small.
    """
    allowed = usual_rates(frame_time, text)
    if allowed:
        return allowed[0]
    frame_time = max(frame_time, 1e-9)  # 1e-9 avoids a division by a frame time of zero
    near = round(1 / frame_time)
    return float(near) if near and abs(1 / near - frame_time) <= 1e-4 * frame_time else 1 / frame_time


def usual_rates(frame_time: float, text: str = "") -> list[float]:
    """Return the common frame rates that a frame time written as `text` may mean, the most likely one first."""
    digits = len(text.partition(".")[2]) if re.fullmatch(r"\d*\.\d+", text) else 7
    slack = 0.5 * 10.0**-digits * 1.0001 + 1e-9
    allowed = [float(rate) for rate in USUAL_RATES if abs(1 / rate - frame_time) <= slack]
    if not allowed:
        allowed = [float(rate) for rate in USUAL_RATES if 0 < 1 / rate - frame_time < 2 * slack]
    # Frame rates that match the frame time exactly come first; the sort keeps the order of all other rates.
    return sorted(allowed, key=lambda rate: abs(1 / rate - frame_time) > 1e-9)


def read_bvh(path: str | Path, data: bytes | None = None) -> Bvh:
    """Read a BVH file from `path`, or from its content `data` if `data` is not None."""
    name = str(path)
    if data is None:
        try:
            size = Path(path).stat().st_size
            if size > MOST_BYTES:
                most = f"{MOST_BYTES / 1e9:g} GB of motion"
                raise MmRosError(f"{name}: is {size / 1e9:.1f} GB long; expected at most {most}")
            data = Path(path).read_bytes()
        except OSError as error:
            raise MmRosError(f"{name}: cannot be read ({error.strerror})") from error
    return _Reader(name, data).read()


def motion_start(data: bytes) -> int:
    found = re.search(rb"(?:^|[\r\n])[ \t]*MOTION[ \t]*(?=[\r\n])", data, re.IGNORECASE)
    return found.end() if found else -1


class _Reader:
    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.data = name, data
        self.names: list[str] = []
        self.parents: list[int] = []
        self.offsets: list[list[float] | None] = []
        self.channels: list[tuple[int, ...]] = []
        self.end_parents: list[int] = []
        self.end_offsets: list[list[float]] = []
        self.line = 0

    def fail(self, text: str, line: int | None = None) -> MmRosError:
        return MmRosError(f"{self.name}, line {line or self.line}: {text}")

    def read(self) -> Bvh:
        start = motion_start(self.data)
        if start < 0:
            raise MmRosError(f"{self.name}: there is no line 'MOTION'; expected a BVH file (HIERARCHY, then MOTION)")
        head = self.data[:start].decode("utf-8-sig", "replace")
        # Files from old Macintosh computers end lines with CR.
        lines = head.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self.hierarchy(lines)
        motion, frame_time, text = self.motion(start, len(lines))
        return Bvh(
            tuple(self.names),
            np.array(self.parents, np.int64),
            np.array(self.offsets, np.float64).reshape(-1, 3),
            tuple(self.channels),
            np.array(self.end_parents, np.int64),
            np.array(self.end_offsets, np.float64).reshape(-1, 3),
            frame_time,
            motion,
            self.name,
            text,
        )

    # --- hierarchy ---------------------------------------------------------------------------------------------------

    def hierarchy(self, lines: list[str]) -> None:
        stack: list[int] = []  # joints and end sites whose closing brace has not been read; end site n is -1 - n
        pending: int | None = None  # joint whose name has been read, but not its opening brace
        for self.line, text in enumerate(lines[:-1], 1):
            for part in re.split(r"([{}])", text):
                words = part.split()
                if not words:
                    continue
                key = words[0].upper()
                if key == "{":
                    if pending is None:
                        raise self.fail("'{' without a joint before it")
                    stack.append(pending)
                    pending = None
                elif key == "}":
                    if not stack:
                        raise self.fail("unexpected '}'")
                    self.closed(stack.pop())
                elif key in ("ROOT", "JOINT"):
                    pending = self.joint(part, key, stack)
                elif key == "END":
                    pending = self.end_site(stack)
                elif key == "OFFSET":
                    self.offset(words, stack)
                elif key == "CHANNELS":
                    self.channel(words, stack)
                elif key not in ("HIERARCHY", "MOTION"):
                    raise self.fail(f"'{words[0]}' is unknown; expected ROOT, JOINT, End Site, OFFSET or CHANNELS")
        self.line = len(lines)
        if stack:
            raise self.fail(f"{len(stack)} '{{' are never closed, the last of joint '{self.names[max(stack[-1], 0)]}'")
        if not self.names:
            raise self.fail("the hierarchy is empty; expected 'ROOT <name>'")
        bare = [name for name, offset in zip(self.names, self.offsets, strict=True) if offset is None]
        if bare:
            raise self.fail(f"joint '{bare[0]}' has no '{{' and no OFFSET")
        self.end_offsets = [offset or [0.0, 0.0, 0.0] for offset in self.end_offsets]

    def closed(self, node: int) -> None:
        if node >= 0 and self.offsets[node] is None:
            raise self.fail(f"joint '{self.names[node]}' has no OFFSET")
        if node < 0 and not self.end_offsets[-1 - node]:
            self.end_offsets[-1 - node] = [0.0, 0.0, 0.0]

    def joint(self, part: str, key: str, stack: list[int]) -> int:
        words = part.split(None, 1)
        if len(words) < 2:
            raise self.fail(f"{key} without a name")
        if key == "JOINT" and (not stack or stack[-1] < 0):
            raise self.fail(f"JOINT '{words[1].strip()}' is outside of any joint")
        if len(stack) >= DEEPEST or len(self.names) >= MOST_JOINTS:
            raise self.fail(f"more than {DEEPEST} joints in one chain, or {MOST_JOINTS} in all")
        self.names.append(words[1].strip())
        self.parents.append(stack[-1] if stack else -1)
        self.offsets.append(None)
        self.channels.append(())
        return len(self.names) - 1

    def end_site(self, stack: list[int]) -> int:
        if not stack or stack[-1] < 0:
            raise self.fail("End Site outside of any joint")
        self.end_parents.append(stack[-1])
        self.end_offsets.append([])
        return -len(self.end_parents)

    def offset(self, words: list[str], stack: list[int]) -> None:
        if not stack:
            raise self.fail("OFFSET outside of any joint")
        numbers = [self.length(w) for w in words[1:]]
        if len(numbers) != 3:
            raise self.fail(f"OFFSET: expected 3 numbers, came {len(numbers)}")
        if stack[-1] >= 0:
            self.offsets[stack[-1]] = numbers
        else:
            self.end_offsets[-1 - stack[-1]] = numbers

    def number(self, word: str) -> float:
        try:
            value = float(word)
        except ValueError:
            raise self.fail(f"'{word}' is not a number") from None
        if not math.isfinite(value):
            raise self.fail(f"'{word}' is not a finite number")
        return value

    def length(self, word: str) -> float:
        value = self.number(word)
        if abs(value) > MOST:
            raise self.fail(f"'{word}' is too large; expected at most {MOST:g}")
        return value

    def channel(self, words: list[str], stack: list[int]) -> None:
        if not stack or stack[-1] < 0:
            raise self.fail("CHANNELS outside of any joint")
        names = words[2:]
        if len(words) < 2 or not words[1].isdigit() or int(words[1]) != len(names):
            raise self.fail(f"CHANNELS: count is {' '.join(words[1:2]) or 'missing'}, but {len(names)} names follow")
        unknown = [n for n in names if n.lower() not in _CODES]
        if unknown:
            raise self.fail(f"channel '{unknown[0]}' is unknown. Channels: {', '.join(CHANNELS)}")
        self.channels[stack[-1]] = tuple(_CODES[n.lower()] for n in names)

    # --- motion ------------------------------------------------------------------------------------------------------

    def motion(self, start: int, first_line: int) -> tuple[F64, float, str]:
        at, line = start, first_line
        frames_text, at, frames_line = self.header_line(at, line, rb"Frames\s*:?", "Frames: <count>")
        time_text, at, self.line = self.header_line(at, frames_line + 1, rb"Frame\s*Time\s*:?", "Frame Time: <seconds>")
        frame_time = self.number(time_text)
        if frame_time <= 0:
            raise self.fail(f"Frame Time: expected more than 0 s, came {time_text}")
        if not re.fullmatch(r"\d+", frames_text):
            raise self.fail(f"Frames: expected a count, came '{frames_text}'", frames_line)
        stated = int(frames_text)
        columns = sum(len(c) for c in self.channels)
        block = np.frombuffer(self.data, np.uint8)[at:]
        possible = len(block) // (2 * max(columns, 1)) + 2  # maximum number of frames that the bytes `block` can hold
        values, frames, bad_line, came, code = parse_numbers(block, max(columns, 1), min(stated + 1, possible))
        bad = self.line + 1 + int(bad_line)
        if code == SHORT_OR_LONG:
            raise self.fail(f"expected {columns} numbers (the channels of the hierarchy), came {came}", bad)
        if code != END:
            word = bytes(block[came : came + 24]).split()[0].decode("latin-1")
            raise self.fail(f"'{word}' is not a finite number", bad)
        if frames == 0:
            raise self.fail(f"the motion is empty: 'Frames: {stated}', and no line of numbers follows")
        if frames != stated:
            more = "more" if frames > stated else str(frames)
            raise self.fail(f"'Frames: {stated}', but {more} lines of numbers follow", frames_line)
        frame, column = np.unravel_index(int(np.argmax(np.abs(values[:frames]))), (frames, max(columns, 1)))
        if columns and abs(values[frame, column]) > MOST:
            value = values[frame, column]
            raise self.fail(f"frame {frame} holds {value:g}; expected at most {MOST:g}", bad)
        return values[:frames], frame_time, time_text

    def header_line(self, at: int, line: int, key: bytes, expected: str) -> tuple[str, int, int]:
        """Read the next line that is not blank; return the text after `key`, the byte at which the line after it
        begins, and the number of the line.
        """
        pattern = re.compile(rb"[ \t]*" + key + rb"[ \t]*(\S*)[ \t]*(?=[\r\n]|$)", re.IGNORECASE)
        while at < len(self.data):
            end = re.compile(rb"\r\n|\r|\n").search(self.data, at)
            stop, after = (end.start(), end.end()) if end else (len(self.data), len(self.data))
            text = self.data[at:stop]
            if text.strip():
                found = pattern.match(text)
                if not found:
                    raise self.fail(f"expected '{expected}', came '{text.decode('latin-1').strip()[:60]}'", line)
                return found.group(1).decode("latin-1"), after, line
            at, line = after, line + 1
        raise self.fail(f"the file ends; expected '{expected}'", line)


def write_bvh(bvh: Bvh, path: str | Path) -> None:
    write_whole(Path(path), format_bvh(bvh).encode())


def format_bvh(bvh: Bvh) -> str:
    lines = ["HIERARCHY"]
    for j in np.flatnonzero(bvh.parents < 0):
        _format_joint(bvh, int(j), 0, lines)
    text = bvh.frame_time_text or repr(float(bvh.frame_time))
    lines += ["MOTION", f"Frames: {len(bvh)}", f"Frame Time: {text}"]
    rows: list[list[Any]] = bvh.motion.tolist()
    lines += [" ".join(map(repr, row)) for row in rows]  # `repr` keeps all digits of a number
    return "\n".join(lines) + "\n"


def _format_joint(bvh: Bvh, j: int, depth: int, lines: list[str]) -> None:
    tab, inner = "\t" * depth, "\t" * (depth + 1)
    lines += [f"{tab}{'ROOT' if bvh.parents[j] < 0 else 'JOINT'} {bvh.names[j]}", tab + "{"]
    lines.append(f"{inner}OFFSET {' '.join(repr(float(v)) for v in bvh.offsets[j])}")
    channels = bvh.channels[j]
    lines.append(" ".join([f"{inner}CHANNELS {len(channels)}", *(CHANNELS[c] for c in channels)]))
    for child in np.flatnonzero(bvh.parents == j):
        _format_joint(bvh, int(child), depth + 1, lines)
    for e in np.flatnonzero(bvh.end_parents == j):
        offset = " ".join(repr(float(v)) for v in bvh.end_offsets[e])
        lines += [f"{inner}End Site", inner + "{", f"{inner}\tOFFSET {offset}", inner + "}"]
    lines.append(tab + "}")
