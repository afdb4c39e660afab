"""Software renderer, which draws bodies as triangles on a floor with a soft shadow.

Pictures of the demo without a browser, of the reports and of the docs are drawn by this renderer. `write_gif` and
`write_png` need the package pillow, which the extra `viewer` installs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.base.files import write_whole
from mm_ros.body.types import F64
from mm_ros.maths.jit import njit

Image = NDArray[np.uint8]

BODY, GHOST, ACCENT = (0.25, 0.46, 0.80), (0.80, 0.72, 0.58), (0.90, 0.45, 0.25)
DEVICE = (0.13, 0.14, 0.16)
SKY_LOW, SKY_HIGH = (0.945, 0.95, 0.96), (0.76, 0.82, 0.90)
SUN = np.array([0.35, 0.25, 0.9]) / np.linalg.norm([0.35, 0.25, 0.9])
SHADOW_CELL_M, SHADOW_BLUR = 0.012, 2


@dataclass(frozen=True)
class Shape:
    """Mesh in the world: vertices and normals (V, 3), triangles (F, 3), and one RGB colour with values from 0 to 1."""

    vertices: F64
    normals: F64
    faces: NDArray[np.uint32]
    color: tuple[float, float, float] = BODY


@dataclass(frozen=True)
class Camera:
    """Camera at `eye` that looks at `target`, with the z axis of the world up. The camera has the vertical field of
    view `fov` [rad]."""

    eye: tuple[float, float, float]
    target: tuple[float, float, float]
    fov: float = 0.6

    def axes(self) -> F64:
        """Return the axes of the camera as rows of a matrix: right, up, forward."""
        forward = np.subtract(self.target, self.eye)
        forward = forward / np.linalg.norm(forward)
        right = np.cross(forward, (0.0, 0.0, 1.0))
        right = right / np.linalg.norm(right)
        return np.stack([right, np.cross(right, forward), forward])


def follow(x: float, y: float, distance: float = 4.2, bearing: float = -0.9, height: float = 1.5) -> Camera:
    """Return a camera that looks at a person at x, y from a distance of `distance` metres."""
    eye = (x + distance * math.cos(bearing), y + distance * math.sin(bearing), height)
    return Camera(eye, (x, y, 0.85))


def render(shapes: Sequence[Shape], camera: Camera, width: int = 480, height: int = 480, smooth: int = 2) -> Image:
    """Return a picture (height, width, 3) of the shapes; each pixel averages `smooth`² samples."""
    w, h = width * smooth, height * smooth
    out = np.empty((h, w, 3), np.float32)
    depth = np.full((h, w), np.inf)
    eye, axes = np.array(camera.eye, np.float64), camera.axes()
    zoom = h / 2 / math.tan(camera.fov / 2)
    shadow, corner = _shadow(shapes)
    _ground(out, depth, eye, axes, zoom, shadow, corner, SHADOW_CELL_M)
    for shape in shapes:
        seen = (np.asarray(shape.vertices, np.float64) - eye) @ axes.T
        normals = np.asarray(shape.normals, np.float64)
        _draw(out, depth, seen, normals, shape.faces, axes, zoom, np.array(shape.color), SUN)
    small = out.reshape(height, smooth, width, smooth, 3).mean(axis=(1, 3))
    pixels: Image = np.clip(small * 255 + 0.5, 0, 255).astype(np.uint8)
    return pixels


def _shadow(shapes: Sequence[Shape]) -> tuple[F64, F64]:
    """Return the shadow on a grid of floor cells around all shapes (0 is lit, 1 is dark), and the lower corner (x, y)
    of this grid."""
    flat = [np.asarray(s.vertices[:, :2] - s.vertices[:, 2:] * (SUN[:2] / SUN[2]), np.float64) for s in shapes]
    if not flat:
        return np.zeros((1, 1)), np.zeros(2)
    margin = (2 * SHADOW_BLUR + 2) * SHADOW_CELL_M
    corner = np.min([f.min(0) for f in flat], axis=0) - margin
    size = np.ceil((np.max([f.max(0) for f in flat], axis=0) + margin - corner) / SHADOW_CELL_M).astype(int) + 1
    grid = np.zeros(size)
    for f, s in zip(flat, shapes, strict=True):
        _fill(grid, (f - corner) / SHADOW_CELL_M, s.faces)
    for _ in range(2):  # two box filters approximate a Gaussian blur of the shadow
        for axis in (0, 1):
            grid = np.mean([np.roll(grid, k, axis) for k in range(-SHADOW_BLUR, SHADOW_BLUR + 1)], axis=0)
    return grid, corner


@njit
def _fill(grid: Any, points: Any, faces: Any) -> None:
    for k in range(len(faces)):
        ax, ay = points[faces[k, 0], 0], points[faces[k, 0], 1]
        bx, by = points[faces[k, 1], 0], points[faces[k, 1], 1]
        cx, cy = points[faces[k, 2], 0], points[faces[k, 2], 1]
        area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
        if area == 0:
            continue
        for i in range(math.ceil(min(ax, bx, cx)), math.floor(max(ax, bx, cx)) + 1):
            for j in range(math.ceil(min(ay, by, cy)), math.floor(max(ay, by, cy)) + 1):
                u = ((bx - i) * (cy - j) - (by - j) * (cx - i)) / area
                v = ((cx - i) * (ay - j) - (cy - j) * (ax - i)) / area
                if u >= 0 and v >= 0 and u + v <= 1:
                    grid[i, j] = 1.0


@njit
def _ground(out: Any, depth: Any, eye: Any, axes: Any, zoom: float, shadow: Any, corner: Any, cell: float) -> None:
    h, w = depth.shape
    for i in range(h):
        for j in range(w):
            u, v = (j + 0.5 - w / 2) / zoom, (h / 2 - i - 0.5) / zoom
            dx = axes[0, 0] * u + axes[1, 0] * v + axes[2, 0]
            dy = axes[0, 1] * u + axes[1, 1] * v + axes[2, 1]
            dz = axes[0, 2] * u + axes[1, 2] * v + axes[2, 2]
            high = min(1.0, max(0.0, 4.0 * dz / math.sqrt(dx * dx + dy * dy + dz * dz)))
            for c in range(3):
                out[i, j, c] = SKY_LOW[c] + (SKY_HIGH[c] - SKY_LOW[c]) * high
            if dz >= -1e-3:
                continue
            t = -eye[2] / dz
            x, y = eye[0] + t * dx, eye[1] + t * dy
            depth[i, j] = t
            gx, gy = abs(2 * x - round(2 * x)), abs(2 * y - round(2 * y))
            mx, my = abs(x - round(x)) * 2, abs(y - round(y)) * 2
            wide = 0.008 + 0.0014 * t
            shade = 0.80 if min(mx, my) < 1.3 * wide else 0.855 if min(gx, gy) < wide else 0.90
            shade *= 1.0 - 0.42 * _sample(shadow, (x - corner[0]) / cell, (y - corner[1]) / cell)
            fog = min(1.0, max(0.0, (t - 4.5) / 11.0))
            fog = fog * fog * (3 - 2 * fog)
            for c in range(3):
                out[i, j, c] = shade * (0.97 + 0.015 * c) * (1 - fog) + SKY_LOW[c] * fog


@njit
def _sample(grid: Any, x: float, y: float) -> float:
    if not (0 <= x < grid.shape[0] - 1 and 0 <= y < grid.shape[1] - 1):
        return 0.0
    i, j = int(x), int(y)
    u, v = x - i, y - j
    low = grid[i, j] * (1 - v) + grid[i, j + 1] * v
    high = grid[i + 1, j] * (1 - v) + grid[i + 1, j + 1] * v
    return float(low * (1 - u) + high * u)


@njit
def _draw(
    out: Any, depth: Any, seen: Any, normals: Any, faces: Any, axes: Any, zoom: float, color: Any, sun: Any
) -> None:
    h, w = depth.shape
    for k in range(len(faces)):
        a, b, c = faces[k, 0], faces[k, 1], faces[k, 2]
        az, bz, cz = seen[a, 2], seen[b, 2], seen[c, 2]
        if min(az, bz, cz) < 0.05:
            continue
        ax, ay = w / 2 + zoom * seen[a, 0] / az, h / 2 - zoom * seen[a, 1] / az
        bx, by = w / 2 + zoom * seen[b, 0] / bz, h / 2 - zoom * seen[b, 1] / bz
        cx, cy = w / 2 + zoom * seen[c, 0] / cz, h / 2 - zoom * seen[c, 1] / cz
        area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
        if area >= 0:  # The triangle is seen from behind or from its edge, so it is not drawn.
            continue
        j0, j1 = max(0, math.floor(min(ax, bx, cx))), min(w - 1, math.ceil(max(ax, bx, cx)))
        i0, i1 = max(0, math.floor(min(ay, by, cy))), min(h - 1, math.ceil(max(ay, by, cy)))
        for i in range(i0, i1 + 1):
            for j in range(j0, j1 + 1):
                x, y = j + 0.5, i + 0.5
                u = ((bx - x) * (cy - y) - (by - y) * (cx - x)) / area
                v = ((cx - x) * (ay - y) - (cy - y) * (ax - x)) / area
                s = 1 - u - v
                if u < 0 or v < 0 or s < 0:
                    continue
                t = 1 / (u / az + v / bz + s / cz)
                if t >= depth[i, j]:
                    continue
                depth[i, j] = t
                nx = u * normals[a, 0] + v * normals[b, 0] + s * normals[c, 0]
                ny = u * normals[a, 1] + v * normals[b, 1] + s * normals[c, 1]
                nz = u * normals[a, 2] + v * normals[b, 2] + s * normals[c, 2]
                _shade(out, i, j, nx, ny, nz, axes, color, sun)


@njit
def _shade(out: Any, i: int, j: int, nx: float, ny: float, nz: float, axes: Any, color: Any, sun: Any) -> None:
    """Compute the colour of a pixel from sunlight, light of sky and floor, a highlight, and a bright rim at grazing
    angles."""
    size = max(math.sqrt(nx * nx + ny * ny + nz * nz), 1e-9)
    nx, ny, nz = nx / size, ny / size, nz / size
    sunlit = max(0.0, nx * sun[0] + ny * sun[1] + nz * sun[2])
    facing = max(0.0, -(nx * axes[2, 0] + ny * axes[2, 1] + nz * axes[2, 2]))
    # The highlight is brightest where the normal is halfway between the directions to the sun and to the eye.
    gx, gy, gz = sun[0] - axes[2, 0], sun[1] - axes[2, 1], sun[2] - axes[2, 2]
    shine = max(0.0, (nx * gx + ny * gy + nz * gz) / max(math.sqrt(gx * gx + gy * gy + gz * gz), 1e-9))
    light = 0.42 + 0.16 * nz + 0.52 * sunlit + 0.10 * facing
    for c in range(3):
        value = color[c] * light + 0.10 * shine**24 + 0.10 * (1 - facing) ** 3 * SKY_LOW[c]
        out[i, j, c] = min(1.0, value)


def write_gif(path: Path, frames: Sequence[Image], rate: float) -> None:
    """Write a looping GIF film with `rate` pictures per second. The GIF file appears under its name when it is
    complete."""
    if not frames:
        raise MmRosError(f"{path}: there are no frames to write")
    try:
        from PIL import Image as Pillow
    except ImportError:
        raise MmRosError(f"pictures need pillow: {setup_command('viewer')}") from None
    pictures = [Pillow.fromarray(f).quantize(64, dither=Pillow.Dither.NONE) for f in frames]
    data = BytesIO()
    pictures[0].save(
        data, format="GIF", save_all=True, append_images=pictures[1:], duration=round(1000 / rate), loop=0,
        optimize=True,
    )  # fmt: skip
    write_whole(path, data.getvalue())


def write_png(path: Path, picture: Image) -> None:
    try:
        from PIL import Image as Pillow
    except ImportError:
        raise MmRosError(f"pictures need pillow: {setup_command('viewer')}") from None
    data = BytesIO()
    Pillow.fromarray(picture).save(data, format="PNG", optimize=True)
    write_whole(path, data.getvalue())


def contact_sheet(pictures: Sequence[Image], columns: int) -> Image:
    """Combine pictures of equal size into one picture with rows of `columns` pictures."""
    rows = [list(pictures[i : i + columns]) for i in range(0, len(pictures), columns)]
    blank = np.full_like(pictures[0], 255)
    rows[-1] += [blank] * (columns - len(rows[-1]))
    return np.vstack([np.hstack(r) for r in rows])
