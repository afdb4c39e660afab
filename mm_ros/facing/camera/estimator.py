"""BlazePose detects the landmarks of one person, tracks this person in the next pictures, and smooths the landmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.landmarks import COUNT, Landmarks
from mm_ros.body.types import F32, F64, U8
from mm_ros.facing.camera import blazepose as bp
from mm_ros.facing.camera.model_file import TfliteModel, model_paths
from mm_ros.facing.camera.one_euro import OneEuro

Network = Callable[[F32], list[F32]]
# minimum cutoff [Hz] of the one-euro filter, and its increase with the speed [Hz per m/s]; the values are MediaPipe's
SMOOTH_SLOWEST, SMOOTH_QUICKNESS = 0.1, 40.0
VISIBILITY_SHARE = 0.1  # share of a new picture in the smoothed visibility of landmarks; the value is MediaPipe's
GAP_S = 0.5  # maximum time between two pictures [s]; the smoothing of landmarks starts anew after a longer time


@dataclass(frozen=True)
class Networks:
    detector: Network
    landmarks: Network


def load_networks(threads: int = 1) -> Networks:
    detector, landmarks = model_paths()
    return Networks(TfliteModel(detector, threads).run, TfliteModel(landmarks, threads).run)


class BlazePose:
    """Returns the landmarks of the most confidently detected person, and of the same person in the next pictures."""

    def __init__(
        self,
        networks: Networks,
        min_detection_confidence: float = 0.5,
        min_presence_confidence: float = 0.5,
        smooth: bool = True,
    ) -> None:
        self._networks = networks
        self.min_detection_confidence, self.min_presence_confidence = min_detection_confidence, min_presence_confidence
        self._smooth = OneEuro(SMOOTH_SLOWEST, SMOOTH_QUICKNESS) if smooth else None
        self.detections = 0  # number of pictures in which the detection network has searched for a person
        self.reset()

    def reset(self) -> None:
        self._region: bp.Region | None = None
        self._last_ns: int | None = None
        self._forget()

    def _forget(self) -> None:
        self._visibility: F32 | None = None
        if self._smooth is not None:
            self._smooth.reset()

    def step(self, image: U8, stamp_ns: int) -> Landmarks | None:
        """Return the landmarks in `image` (H, W, 3) RGB uint8, or None if no person is detected."""
        if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or min(image.shape[:2]) < 16:
            came = f"{image.shape} {image.dtype}"
            raise MmRosError(f"picture: expected (height, width, 3) uint8, sides of at least 16 pixels, came {came}")
        region = self._region or self._find(image)
        self._region = None
        if region is None:
            self._forget()
            return None
        raw, flag, _, heatmap, world = self._networks.landmarks(
            bp.cut(image, *region, bp.LANDMARK_SIZE, 0.0, 1.0, True)
        )
        presence = float(flag.ravel()[0])
        if presence < self.min_presence_confidence:
            self._forget()
            return None
        points, visibility = bp.decoded(raw)
        bp.refine(points, heatmap[0])
        pixels = bp.in_picture(points, region)
        self._region = bp.region_around(tuple(pixels[bp.MIDDLE]), tuple(pixels[bp.RIM]))
        image_share = pixels[:COUNT] / np.array(image.shape[1::-1])
        return self._smoothed(stamp_ns, bp.world_of(world, region), visibility[:COUNT], image_share, presence)

    def _find(self, image: U8) -> bp.Region | None:
        self.detections += 1
        box = bp.whole(image)
        boxes, scores = self._networks.detector(bp.cut(image, *box, bp.DETECTOR_SIZE, -1.0, 1.0, False))
        found = bp.detections(boxes[0], scores[0, :, 0], self.min_detection_confidence)
        return bp.region_of(found[0], box) if found else None

    def _smoothed(self, stamp_ns: int, world: F64, visibility: F64, image: F64, presence: float) -> Landmarks:
        dt = 0.0 if self._last_ns is None else (stamp_ns - self._last_ns) * 1e-9
        self._last_ns = stamp_ns
        visible = visibility.astype(np.float32)
        if self._smooth is not None:
            if not 0 < dt <= GAP_S:
                self._forget()
            world = self._smooth.step(world, dt)
            if self._visibility is not None:
                visible = self._visibility + np.float32(VISIBILITY_SHARE) * (visible - self._visibility)
            self._visibility = visible
        return Landmarks(stamp_ns, world, visible, image.astype(np.float32), presence, 0, "blazepose")


def warm_up(estimator: BlazePose) -> None:
    """Process a grey picture once, so that loading and compilation do not delay the first real picture."""
    grey = np.full((240, 320, 3), 128, np.uint8)
    estimator.step(grey, 0)
    bp.cut(grey, 160.0, 120.0, 100.0, 0.1, bp.LANDMARK_SIZE, 0.0, 1.0, True)
    bp.refine(np.full((2, 2), 0.5), np.zeros((bp.HEATMAP_SIZE, bp.HEATMAP_SIZE, 2), np.float32))
    estimator.reset()
    estimator.detections = 0
