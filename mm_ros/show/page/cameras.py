"""Moves the camera of each browser that shows the inspector page. The camera is turned by hand, follows the avatar, or
is in the avatar's eyes (first person)."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from mm_ros.maths import rotations as rot
from mm_ros.show.page.swift import Setters

MODES = ("orbit", "follow", "first person")
TARGET_HEIGHT_M, TARGET_HALFLIFE_S = 0.9, 0.15
BEFORE_VISOR_M, LOOK_M, WIDE_RAD = 0.07, 2.0, 1.3
HAND_OFF_S = 0.3  # After the user has moved the camera, it does not follow the avatar for 0.3 s.
EYES_FROM_HEAD = np.array([0.12, 0.0, 0.08])
# A browser must report the camera pose that was sent to it within ECHO_S [s], which is long because software rendering
# takes seconds; the reported position may deviate by AGREED_M [m].
ECHO_S, AGREED_M = 5.0, 0.02
FAR_M = 6.0  # If the avatar is farther than 6 m from the camera's target, the camera jumps to the avatar.


class Camera:
    def __init__(self, client: Any, tab: Any, move: Setters):
        self._client, self._move = client, move
        with tab:
            self._mode = client.gui.add_dropdown("camera", MODES, initial_value="follow", order=2.0)
        self._target: Any = None
        self._offset = np.array([2.5, -2.7, 0.7])
        self._sent_offset: Any = None
        self._lead_until = 0.0
        self._touched = 0.0
        self._last = time.monotonic()
        self._fov = 0.0  # in first-person mode, the field of view to restore after it [rad]; else 0

    def move(self, scene: Any) -> None:
        now, camera, mode = time.monotonic(), self._client.camera, self._mode.value
        dt, self._last = min(now - self._last, 0.2), now
        if mode == "first person":
            self._look_through(camera, scene)
            return
        if self._fov:
            self._leave_eyes(camera, scene)
        if mode == "follow":
            self._follow(camera, np.array([*scene.root[:2], TARGET_HEIGHT_M]), dt, now)
        else:
            self._target, self._sent_offset = None, self._offset

    def _follow(self, camera: Any, goal: Any, dt: float, now: float) -> None:
        offset = np.asarray(camera.position) - np.asarray(camera.look_at)
        if self._sent_offset is None:  # The browser still has its default camera pose, which is replaced.
            self._lead(goal, self._offset)
        elif self._target is None:
            self._target, self._sent_offset = goal, offset
        elif np.linalg.norm(self._target - goal) > FAR_M:
            self._target = goal
        apart = float(np.abs(offset - self._sent_offset).max())
        if now < self._lead_until:
            self._lead_until = self._lead_until if apart > AGREED_M else 0.0
        elif apart > 1e-3:
            self._sent_offset, self._touched = offset, now
        if now - self._touched < HAND_OFF_S:
            return
        self._target = self._target + (goal - self._target) * (1 - 0.5 ** (dt / TARGET_HALFLIFE_S))
        self._aim(self._target + self._sent_offset, self._target)

    def _look_through(self, camera: Any, scene: Any) -> None:
        if not self._fov:
            self._fov, self._offset = float(camera.fov), np.asarray(camera.position) - np.asarray(camera.look_at)
            camera.fov = WIDE_RAD
        if scene.eyes is not None:
            at, turn = scene.eyes
            eye = at + rot.rotate(turn, np.array([BEFORE_VISOR_M, 0.0, 0.0]))
        else:
            turn = scene.head_wxyz
            eye = scene.head + rot.rotate(turn, EYES_FROM_HEAD)
        self._aim(eye, eye + rot.rotate(turn, np.array([LOOK_M, 0.0, 0.0])))

    def _aim(self, eye: Any, target: Any) -> None:
        self._move.camera(self._client, eye.tolist(), target.tolist())

    def _leave_eyes(self, camera: Any, scene: Any) -> None:
        camera.fov, self._fov = self._fov, 0.0
        self._lead(np.array([*scene.root[:2], TARGET_HEIGHT_M]), self._offset)

    def _lead(self, target: Any, offset: Any) -> None:
        """Set the browser's camera pose, and ignore reported poses until one agrees with the set pose."""
        self._target, self._sent_offset, self._lead_until = target, offset, time.monotonic() + ECHO_S
        self._aim(target + offset, target)
