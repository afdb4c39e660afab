"""Computes the inputs and decodes the outputs of the two networks of BlazePose (Bazarevsky 2020).

The steps and constants are those of the graphs pose_detection and pose_landmark of MediaPipe 0.10, so that the networks
give the same landmarks as in MediaPipe. Pixels are numbered from (0, 0), with x to the right and y down. The class
`Region` describes a rotated square part of the picture that contains the person.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mm_ros.body.landmarks import COUNT
from mm_ros.body.types import F32, F64, U8
from mm_ros.maths.jit import njit

DETECTOR_SIZE, LANDMARK_SIZE, HEATMAP_SIZE = 224, 256, 64
STRIDES = (8, 16, 32, 32, 32)
ANCHORS_A_CELL = 2
OVERLAP = 0.3  # two detected boxes show the same person if their intersection over union exceeds this value
REGION_SCALE = 1.25  # side of the square region of a person, divided by the diameter of the circle around the person
# A landmark is moved to its peak in the heatmap within REFINE_WINDOW cells, if the peak has REFINE_FROM or more.
REFINE_WINDOW, REFINE_FROM = 3, 0.5
RAW_LANDMARKS = 39  # the landmark network returns 33 landmarks, two points of a circle, and four unused points
MIDDLE, RIM = 33, 34


class Region(NamedTuple):
    x: float  # centre of the square region [px]
    y: float
    size: float  # side of the square region [px]
    angle: float  # angle by which the person, and the square around the person, lean to the right in the picture [rad]


class Detection(NamedTuple):
    score: float
    # left, top, right and bottom edge of the person, as fractions of the square region around the whole picture
    box: tuple[float, float, float, float]
    hips: tuple[float, float]  # middle of the hips, which is the centre of a circle around the person
    rim: tuple[float, float]  # point of the circle around the person that lies in the direction of the head


@njit
def cut(image: U8, x: float, y: float, size: float, angle: float, side: int, low: float, high: float,
        repeat: bool) -> F32:  # fmt: skip
    """Return a region of the picture as (1, side, side, 3) with values from `low` to `high`, bilinearly interpolated.

    Pixels outside the picture repeat the edge of the picture if `repeat` is true; otherwise they are black.
    """
    out = np.empty((1, side, side, 3), np.float32)
    height, width = image.shape[:2]
    c, s, step = math.cos(angle) * size / side, math.sin(angle) * size / side, (high - low) / 255.0
    for v in range(side):
        for u in range(side):
            a, b = u - side / 2, v - side / 2
            px, py = x + c * a - s * b, y + s * a + c * b
            i, j = math.floor(px), math.floor(py)
            fx, fy = px - i, py - j
            for k in range(3):
                total = 0.0
                for dj in range(2):
                    for di in range(2):
                        ii, jj = i + di, j + dj
                        if repeat:
                            ii, jj = min(max(ii, 0), width - 1), min(max(jj, 0), height - 1)
                        if 0 <= ii < width and 0 <= jj < height:
                            share = (fx if di else 1 - fx) * (fy if dj else 1 - fy)
                            total += share * image[jj, ii, k]
                out[0, v, u, k] = low + step * total
    return out


def whole(image: U8) -> Region:
    """Return the smallest square region that contains the whole picture."""
    height, width = image.shape[:2]
    return Region(width / 2, height / 2, float(max(width, height)), 0.0)


def anchors() -> F64:
    """Return the centres (2254, 2) of the cells of the detection network, as fractions of its input picture."""
    layers: dict[int, int] = {}
    for stride in STRIDES:
        layers[stride] = layers.get(stride, 0) + ANCHORS_A_CELL
    out = []
    for stride, repeats in layers.items():
        cells = DETECTOR_SIZE // stride
        v, u = np.mgrid[:cells, :cells]
        middles = np.stack([u, v], -1).reshape(-1, 2)
        out.append(np.repeat((middles + 0.5) / cells, repeats, axis=0))
    return np.concatenate(out).astype(np.float64)


ANCHORS = anchors()


def detections(boxes: F32, scores: F32, least: float) -> list[Detection]:
    """Decode the boxes (2254, 12) and scores (2254,) of the detection network into persons, most confident first."""
    chance = 1 / (1 + np.exp(-np.clip(scores.astype(np.float64), -100, 100)))
    rows = np.flatnonzero(chance >= least)
    rows = rows[np.argsort(-chance[rows], kind="stable")]
    raw = boxes[rows].astype(np.float64) / DETECTOR_SIZE
    at = ANCHORS[rows]
    middle, half = raw[:, :2] + at, raw[:, 2:4] / 2
    corners = np.concatenate([middle - half, middle + half], axis=1)
    points = (raw[:, 4:].reshape(-1, 4, 2) + at[:, None])[:, :2].reshape(-1, 4)
    return _merged(chance[rows], np.concatenate([corners, points], axis=1))


def _merged(chance: F64, found: F64) -> list[Detection]:
    out = []
    left = np.arange(len(chance))
    while len(left):
        same = _overlap(found[left[0], :4], found[left, :4]) > OVERLAP
        same[0] = True
        group = left[same]
        mean = (chance[group, None] * found[group]).sum(0) / chance[group].sum()
        x0, y0, x1, y1, hx, hy, rx, ry = mean.tolist()
        out.append(Detection(float(chance[left[0]]), (x0, y0, x1, y1), (hx, hy), (rx, ry)))
        left = left[~same]
    return out


def _overlap(box: F64, boxes: F64) -> F64:
    low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:], boxes[:, 2:])
    both = np.prod(np.maximum(high - low, 0), axis=1)
    area = np.prod(box[2:] - box[:2]) + np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    return np.asarray(both / np.maximum(area - both, 1e-12))


def region_around(middle: tuple[float, float], rim: tuple[float, float]) -> Region:
    """Return the square region [px] around the circle with the centre `middle` and the point `rim` on it.

    The square region is rotated so that the person in it is upright.
    """
    dx, dy = rim[0] - middle[0], rim[1] - middle[1]
    angle = math.pi / 2 - math.atan2(-dy, dx)
    angle = (angle + math.pi) % (2 * math.pi) - math.pi
    return Region(*middle, 2 * math.hypot(dx, dy) * REGION_SCALE, angle)


def region_of(found: Detection, box: Region) -> Region:
    """Return the region [px] of a detected person, whose coordinates are fractions of the region `box`."""
    left, top = box.x - box.size / 2, box.y - box.size / 2
    return region_around(
        (left + found.hips[0] * box.size, top + found.hips[1] * box.size),
        (left + found.rim[0] * box.size, top + found.rim[1] * box.size),
    )


def in_picture(points: F64, region: Region) -> F64:
    """Convert points (…, 2) from fractions of a region to pixels of the picture."""
    c, s = math.cos(region.angle), math.sin(region.angle)
    a, b = (points[..., 0] - 0.5) * region.size, (points[..., 1] - 0.5) * region.size
    return np.stack([region.x + c * a - s * b, region.y + s * a + c * b], -1)


def decoded(raw: F32) -> tuple[F64, F64]:
    """Decode the output of the landmark network into positions (39, 2) and visibilities (39,) of points.

    The positions are from 0 to 1 over the square part of the picture that the landmark network has read.
    """
    rows = raw.reshape(RAW_LANDMARKS, 5).astype(np.float64)
    visible = 1 / (1 + np.exp(-rows[:, 3]))
    present = 1 / (1 + np.exp(-rows[:, 4]))
    return rows[:, :2] / LANDMARK_SIZE, np.minimum(visible, present)


@njit
def refine(points: F64, heatmap: F32) -> None:
    """Move each landmark in `points` to the centre of its peak in the heatmap (64, 64, 39) if the peak is confident."""
    side = heatmap.shape[0]
    for n in range(len(points)):
        u, v = int(points[n, 0] * side), int(points[n, 1] * side)
        if not (0 <= u < side and 0 <= v < side):
            continue
        total = best = x = y = 0.0
        for j in range(max(v - REFINE_WINDOW, 0), min(v + REFINE_WINDOW + 1, side)):
            for i in range(max(u - REFINE_WINDOW, 0), min(u + REFINE_WINDOW + 1, side)):
                share = 1 / (1 + math.exp(-heatmap[j, i, n]))
                total += share
                best = max(best, share)
                x += i * share
                y += j * share
        if best >= REFINE_FROM and total > 0:
            points[n, 0], points[n, 1] = x / total / side, y / total / side


def world_of(raw: F32, region: Region) -> F64:
    """Convert the output of the landmark network to positions (33, 3) relative to the centre of the hips [m].

    The axes are those of the camera: x is the direction in which the camera looks, y points left and z up.
    """
    p = raw.reshape(RAW_LANDMARKS, 3)[:COUNT].astype(np.float64)
    c, s = math.cos(region.angle), math.sin(region.angle)
    right, down = c * p[:, 0] - s * p[:, 1], s * p[:, 0] + c * p[:, 1]
    return np.stack([p[:, 2], -right, -down], -1)
