"""Pictures of bodies without a screen: capsules by ray casting, with a floor, a shadow and soft light.

For the demo without a browser, reports and docs. Arrays in, pixels out; `write_gif` needs pillow (extra `viewer`).
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

from mm_ros.core.errors import MmRosError
from mm_ros.core.jit import njit
from mm_ros.core.types import F64
from mm_ros.io.files import write_whole

Image = NDArray[np.uint8]

SKY_LOW, SKY_HIGH = (0.93, 0.94, 0.96), (0.80, 0.85, 0.92)
BODY, GHOST, ACCENT = (0.35, 0.52, 0.78), (0.78, 0.72, 0.62), (0.90, 0.45, 0.25)
SUN = np.array([0.35, 0.25, 0.9]) / np.linalg.norm([0.35, 0.25, 0.9])


@dataclass(frozen=True)
class Camera:
    """Looks from `eye` to `target`, z up; `fov` is the vertical field of view in radians."""

    eye: tuple[float, float, float]
    target: tuple[float, float, float]
    fov: float = 0.6

    def axes(self) -> F64:
        """Rows right, up, forward."""
        forward = np.subtract(self.target, self.eye)
        forward = forward / np.linalg.norm(forward)
        right = np.cross(forward, (0.0, 0.0, 1.0))
        right = right / np.linalg.norm(right)
        return np.stack([right, np.cross(right, forward), forward])


def follow(x: float, y: float, distance: float = 4.2, bearing: float = -0.9, height: float = 1.5) -> Camera:
    """A camera that stands `distance` away from a person at x, y."""
    eye = (x + distance * math.cos(bearing), y + distance * math.sin(bearing), height)
    return Camera(eye, (x, y, 0.85))


def render(
    capsules: F64, colors: F64, camera: Camera, width: int = 480, height: int = 480, smooth: int = 2
) -> Image:
    """`capsules` (B, 8): start, end, radii; `colors` (B, 3) in 0 … 1. `smooth`² samples a pixel."""
    w, h = width * smooth, height * smooth
    out = np.empty((h, w, 3), np.float32)
    depth = np.full((h, w), np.inf, np.float32)
    eye, axes = np.array(camera.eye, np.float64), camera.axes()
    zoom = h / 2 / math.tan(camera.fov / 2)
    _ground(out, depth, eye, axes, zoom, np.ascontiguousarray(capsules, np.float64), SUN)
    for capsule, color in zip(np.asarray(capsules, np.float64), np.asarray(colors, np.float64), strict=True):
        _draw(out, depth, eye, axes, zoom, capsule, color, SUN)
    small = out.reshape(height, smooth, width, smooth, 3).mean(axis=(1, 3))
    pixels: Image = np.clip(small * 255 + 0.5, 0, 255).astype(np.uint8)
    return pixels


@njit
def _ground(out: Any, depth: Any, eye: Any, axes: Any, zoom: float, capsules: Any, sun: Any) -> None:
    """Sky, floor with a half-metre grid, and the shadow of the capsules."""
    h, w = depth.shape
    for i in range(h):
        for j in range(w):
            u, v = (j + 0.5 - w / 2) / zoom, (h / 2 - i - 0.5) / zoom
            dz = axes[0, 2] * u + axes[1, 2] * v + axes[2, 2]
            share = 0.5 - 0.5 * (h / 2 - i) / (h / 2)
            for c in range(3):
                out[i, j, c] = SKY_HIGH[c] + (SKY_LOW[c] - SKY_HIGH[c]) * share
            if dz >= -1e-3:
                continue
            t = -eye[2] / dz
            x = eye[0] + t * (axes[0, 0] * u + axes[1, 0] * v + axes[2, 0])
            y = eye[1] + t * (axes[0, 1] * u + axes[1, 1] * v + axes[2, 1])
            depth[i, j] = t
            gx, gy = abs(2 * x - round(2 * x)), abs(2 * y - round(2 * y))
            line = min(gx, gy) < 0.012 + 0.0012 * t
            shade = 0.72 if line else 0.82
            light = 1.0 - 0.45 * _shadow(x, y, capsules, sun)
            fog = min(1.0, max(0.0, (t - 6.0) / 14.0))
            for c in range(3):
                floor = shade * light * (0.97 + 0.03 * c)
                out[i, j, c] = floor * (1 - fog) + SKY_LOW[c] * fog


@njit
def _shadow(x: float, y: float, capsules: Any, sun: Any) -> float:
    """How much the capsules hide the sun from a point of the floor, with a soft edge."""
    dark = 0.0
    for k in range(len(capsules)):
        ax = capsules[k, 0] - capsules[k, 2] * sun[0] / sun[2]
        ay = capsules[k, 1] - capsules[k, 2] * sun[1] / sun[2]
        bx = capsules[k, 3] - capsules[k, 5] * sun[0] / sun[2]
        by = capsules[k, 4] - capsules[k, 5] * sun[1] / sun[2]
        dx, dy = bx - ax, by - ay
        along = ((x - ax) * dx + (y - ay) * dy) / max(dx * dx + dy * dy, 1e-12)
        along = min(1.0, max(0.0, along))
        away = math.hypot(x - ax - along * dx, y - ay - along * dy)
        radius = capsules[k, 6] + along * (capsules[k, 7] - capsules[k, 6])
        soft = 0.03
        dark = max(dark, min(1.0, max(0.0, (radius + soft - away) / (2 * soft))))
    return dark


@njit
def _draw(out: Any, depth: Any, eye: Any, axes: Any, zoom: float, capsule: Any, color: Any, sun: Any) -> None:
    """One tapered capsule, as a row of spheres so close that they look like one body."""
    length = math.sqrt(
        (capsule[3] - capsule[0]) ** 2 + (capsule[4] - capsule[1]) ** 2 + (capsule[5] - capsule[2]) ** 2
    )
    thin = max(min(capsule[6], capsule[7]), 1e-3)
    n = max(2, math.ceil(length / (0.25 * thin)))
    for k in range(n + 1):
        s = k / n
        x = capsule[0] + s * (capsule[3] - capsule[0])
        y = capsule[1] + s * (capsule[4] - capsule[1])
        z = capsule[2] + s * (capsule[5] - capsule[2])
        _draw_sphere(out, depth, eye, axes, zoom, x, y, z, capsule[6] + s * (capsule[7] - capsule[6]), color, sun)


@njit
def _draw_sphere(
    out: Any, depth: Any, eye: Any, axes: Any, zoom: float, x: float, y: float, z: float, r: float, color: Any, sun: Any
) -> None:
    h, w = depth.shape
    px, py, pz = x - eye[0], y - eye[1], z - eye[2]
    cx = axes[0, 0] * px + axes[0, 1] * py + axes[0, 2] * pz
    cy = axes[1, 0] * px + axes[1, 1] * py + axes[1, 2] * pz
    cz = axes[2, 0] * px + axes[2, 1] * py + axes[2, 2] * pz
    if cz < 2 * r:
        return
    reach = zoom * r / (cz - r) + 1
    j0, j1 = int(max(0, w / 2 + zoom * cx / cz - reach)), int(min(w - 1, w / 2 + zoom * cx / cz + reach))
    i0, i1 = int(max(0, h / 2 - zoom * cy / cz - reach)), int(min(h - 1, h / 2 - zoom * cy / cz + reach))
    for i in range(i0, i1 + 1):
        for j in range(j0, j1 + 1):
            u, v = (j + 0.5 - w / 2) / zoom, (h / 2 - i - 0.5) / zoom
            a = u * u + v * v + 1
            b = u * cx + v * cy + cz
            disc = b * b - a * (cx * cx + cy * cy + cz * cz - r * r)
            if disc < 0:
                continue
            t = (b - math.sqrt(disc)) / a
            if t <= 0 or t >= depth[i, j]:
                continue
            depth[i, j] = t
            nx, ny, nz = (t * u - cx) / r, (t * v - cy) / r, (t - cz) / r
            gx = nx * axes[0, 0] + ny * axes[1, 0] + nz * axes[2, 0]
            gy = nx * axes[0, 1] + ny * axes[1, 1] + nz * axes[2, 1]
            gz = nx * axes[0, 2] + ny * axes[1, 2] + nz * axes[2, 2]
            sunlit = max(0.0, gx * sun[0] + gy * sun[1] + gz * sun[2])
            light = 0.55 + 0.5 * sunlit + 0.12 * max(0.0, -nz)
            for c in range(3):
                out[i, j, c] = min(1.0, color[c] * light)


def write_gif(path: Path, frames: Sequence[Image], rate: float) -> None:
    """An endless GIF, written under another name first."""
    if not frames:
        raise MmRosError(f"{path}: there are no frames to write")
    try:
        from PIL import Image as Pillow
    except ImportError:
        raise MmRosError("pictures need pillow: pip install 'mm_ros[viewer]'") from None
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
        raise MmRosError("pictures need pillow: pip install 'mm_ros[viewer]'") from None
    data = BytesIO()
    Pillow.fromarray(picture).save(data, format="PNG", optimize=True)
    write_whole(path, data.getvalue())


def contact_sheet(pictures: Sequence[Image], columns: int) -> Image:
    """Pictures of one size in rows, left to right."""
    rows = [list(pictures[i : i + columns]) for i in range(0, len(pictures), columns)]
    blank = np.full_like(pictures[0], 255)
    rows[-1] += [blank] * (columns - len(rows[-1]))
    return np.vstack([np.hstack(r) for r in rows])
