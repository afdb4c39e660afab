"""Compiled functions of the BVH reader, which convert text to numbers, and the numbers to poses of joints."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mm_ros.maths.jit import njit

END, SHORT_OR_LONG, NOT_A_NUMBER = 0, 1, 2
REPLACES_OFFSET, ADDS_TO_OFFSET, IN_ROOM = 0, 1, 2  # possible meanings of the position channels of a joint
_POWERS = 10.0 ** np.arange(23)  # all powers of ten that float64 represents exactly


@njit
def parse_numbers(text: Any, columns: int, most_frames: int) -> Any:
    """Convert text to an array with one row per line and `columns` numbers per row.

    Return the array, the number of rows, the line of an error, the number of columns or the byte at the error, and an
    error code such as NOT_A_NUMBER. Numbers with up to 15 digits and without a large exponent are converted exactly.
    """
    n = len(text)
    values = np.empty((most_frames, columns))
    frame = line = column = 0
    i = 0
    while True:
        while i < n and (text[i] == 32 or text[i] == 9):
            i += 1
        if i >= n or text[i] == 10 or text[i] == 13 or text[i] == 0:
            if column > 0:
                if column != columns:
                    return values, frame, line, column, SHORT_OR_LONG
                frame += 1
                column = 0
                if frame >= most_frames:
                    return values, frame, line, column, END
            if i >= n or text[i] == 0:
                return values, frame, line, column, END
            if text[i] == 13 and i + 1 < n and text[i + 1] == 10:
                i += 1
            i += 1
            line += 1
            continue
        start = i
        negative = text[i] == 45
        if negative or text[i] == 43:
            i += 1
        mantissa = np.int64(0)
        digits = 0
        scale = 0
        point = False
        seen = False
        while i < n:
            c = text[i]
            if 48 <= c <= 57:
                seen = True
                if digits < 18:
                    mantissa = mantissa * 10 + (c - 48)
                    if mantissa > 0:
                        digits += 1
                    if point:
                        scale -= 1
                elif not point:
                    scale += 1
            elif c == 46 and not point:
                point = True
            else:
                break
            i += 1
        if seen and i < n and (text[i] == 101 or text[i] == 69):
            i += 1
            down = i < n and text[i] == 45
            if i < n and (text[i] == 45 or text[i] == 43):
                i += 1
            exponent = 0
            seen = False
            while i < n and 48 <= text[i] <= 57:
                exponent = min(exponent * 10 + (text[i] - 48), 999)
                seen = True
                i += 1
            scale += -exponent if down else exponent
        if not seen or (i < n and text[i] > 32):
            return values, frame, line, start, NOT_A_NUMBER
        value = float(mantissa)
        if scale < 0:
            value = value / _POWERS[-scale] if scale >= -22 else value * 10.0**scale
        elif scale > 0:
            value = value * 10.0**scale
        if not math.isfinite(value):
            return values, frame, line, start, NOT_A_NUMBER
        if column < columns:
            values[frame, column] = -value if negative else value
        column += 1


@njit
def nodes_global(motion: Any, codes: Any, counts: Any, parents: Any, offsets: Any, meanings: Any) -> Any:
    """Return the positions (F, N, 3) and rotations (F, N, 4) of all joints and end sites, in the axes of the file."""
    frames, nodes, joints = len(motion), len(parents), len(counts)
    positions = np.empty((frames, nodes, 3))
    rotations = np.empty((frames, nodes, 4))
    for f in range(frames):
        at = 0
        for j in range(nodes):
            x, y, z = offsets[j, 0], offsets[j, 1], offsets[j, 2]
            qw, qx, qy, qz = 1.0, 0.0, 0.0, 0.0
            if j < joints:
                added = meanings[j] == ADDS_TO_OFFSET
                base_x = x if added else 0.0
                base_y = y if added else 0.0
                base_z = z if added else 0.0
                for _k in range(counts[j]):
                    v = motion[f, at]
                    code = codes[at]
                    at += 1
                    if code == 0:
                        x = base_x + v
                    elif code == 1:
                        y = base_y + v
                    elif code == 2:
                        z = base_z + v
                    else:
                        half = v * (math.pi / 360)
                        c, s = math.cos(half), math.sin(half)
                        if code == 3:
                            qw, qx, qy, qz = qw * c - qx * s, qx * c + qw * s, qy * c + qz * s, qz * c - qy * s
                        elif code == 4:
                            qw, qx, qy, qz = qw * c - qy * s, qx * c - qz * s, qy * c + qw * s, qz * c + qx * s
                        else:
                            qw, qx, qy, qz = qw * c - qz * s, qx * c + qy * s, qy * c - qx * s, qz * c + qw * s
            p = parents[j]
            if p >= 0:
                pw, px, py, pz = rotations[f, p, 0], rotations[f, p, 1], rotations[f, p, 2], rotations[f, p, 3]
                tx, ty, tz = 2 * (py * z - pz * y), 2 * (pz * x - px * z), 2 * (px * y - py * x)
                in_room = j < joints and meanings[j] == IN_ROOM
                x, y, z = (x, y, z) if in_room else (
                    positions[f, p, 0] + x + pw * tx + py * tz - pz * ty,
                    positions[f, p, 1] + y + pw * ty + pz * tx - px * tz,
                    positions[f, p, 2] + z + pw * tz + px * ty - py * tx,
                )
                qw, qx, qy, qz = (
                    pw * qw - px * qx - py * qy - pz * qz,
                    pw * qx + px * qw + py * qz - pz * qy,
                    pw * qy - px * qz + py * qw + pz * qx,
                    pw * qz + px * qy - py * qx + pz * qw,
                )
            positions[f, j, 0], positions[f, j, 1], positions[f, j, 2] = x, y, z
            rotations[f, j, 0], rotations[f, j, 1], rotations[f, j, 2], rotations[f, j, 3] = qw, qx, qy, qz
    return positions, rotations
