"""Node `pose_estimator`: estimates body landmarks of the user in the images of a topic, a webcam or a video.

The estimator runs in its own thread, because one image takes so long that it would delay the callbacks of the node.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, Full, Queue
from typing import Any

from sensor_msgs.msg import Image

from mm_ros.base.errors import MmRosError
from mm_ros.base.settings import Settings, setting
from mm_ros.body.types import U8
from mm_ros.facing.camera.estimator import BlazePose, load_networks, warm_up
from mm_ros.facing.camera.pictures import pictures
from mm_ros.ros.conversions import landmarks_to_ros, stamp_from_ros
from mm_ros.ros.foreign import image_from_ros
from mm_ros.ros.node import AvatarNode

RETRY_S = 2.0


@dataclass(frozen=True)
class EstimatorSettings(Settings):
    camera: str = setting(
        "", "Webcam number, video file, or folder of images. If `camera` is empty, use the topic `image`.", live=False
    )
    camera_frame: str = setting(
        "camera", "Frame id of the camera in `landmarks`, whose axes are x forward, y left, z up.", live=False
    )
    threads: int = setting(1, "Number of threads for BlazePose's networks.", low=1, high=16, live=False)
    min_detection_confidence: float = setting(
        0.5,
        "Minimum confidence of the detector for a person in an image. With a larger value, fewer detections are false, "
        "but more people are missed.",
        "",
        0.0,
        1.0,
    )
    min_presence_confidence: float = setting(
        0.5,
        "If the confidence of a person's landmarks falls below this limit, the person counts as lost and is searched "
        "again. With a larger limit, a person counts as lost sooner.",
        "",
        0.0,
        1.0,
    )
    loop: bool = setting(False, "Start a video or a folder of images again at its end.", live=False)


class PoseEstimator(AvatarNode):
    NAME = "pose_estimator"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        s = self.settings(EstimatorSettings)
        self._landmarks = self.publisher("landmarks")
        self._estimator = BlazePose(load_networks(s.threads), s.min_detection_confidence, s.min_presence_confidence)
        warm_up(self._estimator)
        self._waiting: Queue[Callable[[], tuple[U8, int]]] = Queue(maxsize=1)  # the newest image
        self._ended = threading.Event()
        self._seen, self._missing, self._took_s, self._reset_asked = 0, 0, 0.0, False
        self.health.watch = self._report
        self._threads = [threading.Thread(target=self._work, daemon=True)]
        if s.camera:
            self.health.expects_input = False
            first = pictures(s.camera)  # `pictures` raises MmRosError if the camera cannot be opened
            self._threads.append(threading.Thread(target=self._read, args=(s.camera, first), daemon=True))
        else:
            self.listen("image", self._take)
        self.start()
        for thread in self._threads:
            thread.start()

    def _take(self, msg: Image) -> None:
        stamp = stamp_from_ros(msg.header.stamp) or self.now_ns()
        self._offer(lambda: (image_from_ros(msg), stamp))

    def _offer(self, picture: Callable[[], tuple[U8, int]]) -> None:
        """Put an image into the queue; the new image replaces an older image that is still waiting."""
        while True:
            try:
                self._waiting.put_nowait(picture)
                return
            except Full:
                try:
                    self._waiting.get_nowait()
                    self.health.dropped += 1
                except Empty:
                    pass

    def _read(self, camera: str, film: Any) -> None:
        while not self._ended.is_set():
            try:
                self._play(film or pictures(camera))
                if not self.settings(EstimatorSettings).loop:
                    return
            except MmRosError as error:
                self.health.refuse(str(error))
                self._ended.wait(RETRY_S)
            film = None  # After an error, the camera is opened again in the next pass of the loop.

    def _play(self, film: Any) -> None:
        began = time.monotonic()
        for picture, seconds in film:
            if seconds is not None:
                self._ended.wait(max(0.0, began + seconds - time.monotonic()))
            if self._ended.is_set():
                return
            stamp = self.now_ns()
            self._offer(lambda picture=picture, stamp=stamp: (picture, stamp))  # type: ignore[misc]

    def _work(self) -> None:
        estimate = self.guarded("picture", self._estimate)
        while not self._ended.is_set():
            try:
                picture = self._waiting.get(timeout=0.2)
            except Empty:
                continue
            estimate(picture)

    def _estimate(self, picture: Callable[[], tuple[U8, int]]) -> None:
        began = time.perf_counter()
        if self._reset_asked:
            self._reset_asked = False
            self._estimator.reset()
        landmarks = self._estimator.step(*picture())
        self._took_s = time.perf_counter() - began
        if landmarks is None:
            self._missing += 1
            return
        self._seen += 1
        frame = self.settings(EstimatorSettings).camera_frame
        self._landmarks.publish(landmarks_to_ros(self.outputs.landmarks(landmarks), frame))
        self.health.done += 1

    def _report(self) -> None:
        self.health.values.update(
            picture_ms=f"{self._took_s * 1e3:.1f}",
            person=str(self._seen),
            without_person=str(self._missing),
            searches=str(self._estimator.detections),
        )

    def reset(self) -> None:
        """Let the estimator's thread clear the state of the estimator before the next image."""
        self._reset_asked = True

    def apply_settings(self) -> None:
        s = self.settings(EstimatorSettings)
        self._estimator.min_detection_confidence, self._estimator.min_presence_confidence = (
            s.min_detection_confidence,
            s.min_presence_confidence,
        )

    def close(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(2.0)
