"""An OpenXR session without graphics, from `create_instance` to the pose of each tracker.

Every function of the library OpenXR may raise `xr.XrException`. The call `wait_frame` cannot be used to wait for the
next pose, because in a session without graphics it returns at once with the time 0.
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import xr
from xr.platform.linux import convert_timespec_time_to_time_khr, timespec

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import EXTRAPOLATED, F64, HEAD_ROLE, LOST, ROLES, TRACKED, TrackerFrame, identity_pose
from mm_ros.maths import rotations as rot
from mm_ros.tracking.room import compose
from mm_ros.tracking.sources import axes
from mm_ros.tracking.sources.base import UNKNOWN_GRIPS, Grips

HEADLESS = "XR_MND_headless"
TIMESPEC = "XR_KHR_convert_timespec_time"
VIVE_TRACKERS = "XR_HTCX_vive_tracker_interaction"

HANDS = {"left_hand": "/user/hand/left", "right_hand": "/user/hand/right"}
VIVE_ROLES = {
    role: f"/user/vive_tracker_htcx/role/{name}"
    for role, name in (
        *((r, r) for r in ("waist", "left_foot", "right_foot", "chest", "left_knee", "right_knee")),
        ("left_forearm", "left_elbow"), ("right_forearm", "right_elbow"),
    )
}  # fmt: skip
# For each OpenXR interaction profile (kind of controller): the extension that it needs, and the input that serves as
# grip button. The OpenXR runtime selects the profile that fits its controllers best.
PROFILES = {
    "/interaction_profiles/khr/simple_controller": ("", "select/click"),
    "/interaction_profiles/valve/index_controller": ("", "squeeze/value"),
    "/interaction_profiles/oculus/touch_controller": ("", "squeeze/value"),
    "/interaction_profiles/htc/vive_controller": ("", "squeeze/click"),
    "/interaction_profiles/microsoft/motion_controller": ("", "squeeze/click"),
    "/interaction_profiles/bytedance/pico4_controller": ("XR_BD_controller_interaction", "squeeze/value"),
    "/interaction_profiles/htc/vive_focus3_controller": ("XR_HTC_vive_focus3_controller_interaction", "squeeze/click"),
    "/interaction_profiles/hp/mixed_reality_controller": ("XR_EXT_hp_mixed_reality_controller", "squeeze/value"),
}
GRIP_HELD = 0.5  # share of the travel of a grip button above which the button counts as held
VIVE_PROFILE = "/interaction_profiles/htc/vive_tracker_htcx"

# The flags of OpenXR are plain integers here, because operations on enum flags take longer than the OpenXR call.
_VALID = int(xr.SpaceLocationFlags.POSITION_VALID_BIT | xr.SpaceLocationFlags.ORIENTATION_VALID_BIT)
_TRACKED = _VALID | int(xr.SpaceLocationFlags.POSITION_TRACKED_BIT | xr.SpaceLocationFlags.ORIENTATION_TRACKED_BIT)
CLOCKS_EVERY_NS = 1_000_000_000


class Ended(Exception):
    """Raised if the runtime has ended the session regularly, so that a new session may be started."""


@dataclass(frozen=True)
class Recentred:
    at: int  # XrTime
    new_from_old: F64 | None  # pose of the old tracking space in the new one; None if the runtime does not report it


class OpenXrSession:
    def __init__(self) -> None:
        self.instance: Any = None
        self.warning = ""
        self._running = False
        self._recentred: list[Recentred] = []
        self.epoch_moves = 0
        self.grips = UNKNOWN_GRIPS
        self._clocks_ns, self._xr_minus_monotonic = -CLOCKS_EVERY_NS, 0
        try:
            self._create()
        except BaseException:
            self.close()
            raise

    def _create(self) -> None:
        offered = {_text(e.extension_name) for e in xr.enumerate_instance_extension_properties()}
        for needed in (HEADLESS, TIMESPEC):
            if needed not in offered:
                raise MmRosError(
                    f"this OpenXR runtime does not offer {needed}, which programs without graphics need for poses. "
                    "Runtimes that offer it: Monado, WiVRn, SteamVR. Or use the source 'steamvr'"
                )
        optional = {VIVE_TRACKERS, *(needed for needed, _ in PROFILES.values() if needed)} & offered
        self._vive = VIVE_TRACKERS in optional
        self._profiles = [p for p, (needed, _) in PROFILES.items() if not needed or needed in optional]
        self.instance = xr.create_instance(
            xr.InstanceCreateInfo(
                application_info=xr.ApplicationInfo(application_name="mm_ros"),
                enabled_extension_names=[HEADLESS, TIMESPEC, *sorted(optional)],
            )
        )
        self.runtime = _text(xr.get_instance_properties(self.instance).runtime_name)
        system = xr.get_system(self.instance, xr.SystemGetInfo(form_factor=xr.FormFactor.HEAD_MOUNTED_DISPLAY))
        self._session = xr.create_session(self.instance, xr.SessionCreateInfo(system_id=system))
        self._base = self._floor_space()
        self._spaces: dict[int, Any] = {HEAD_ROLE: self._reference(xr.ReferenceSpaceType.VIEW)}
        self._add_actions()

    def _reference(self, kind: Any) -> Any:
        return xr.create_reference_space(
            self._session, xr.ReferenceSpaceCreateInfo(kind, xr.Posef(xr.Quaternionf(0, 0, 0, 1), xr.Vector3f()))
        )

    def _floor_space(self) -> Any:
        if xr.ReferenceSpaceType.STAGE in [
            xr.ReferenceSpaceType(k) for k in xr.enumerate_reference_spaces(self._session)
        ]:
            self._base_type = xr.ReferenceSpaceType.STAGE
        else:
            self._base_type = xr.ReferenceSpaceType.LOCAL
            self.warning = "the runtime has no floor height (no STAGE space): calibrate, or heights will be wrong"
        return self._reference(self._base_type)

    def _path(self, text: str) -> Any:
        return xr.string_to_path(self.instance, text)

    def _add_actions(self) -> None:
        self._actions = xr.create_action_set(self.instance, xr.ActionSetCreateInfo("mm_ros", "mm_ros trackers", 0))
        users = list(HANDS.values())
        hand = self._action("hand_pose", "Hands", users, xr.ActionType.POSE_INPUT)
        self._grip = self._action("grip", "Grip buttons", users, xr.ActionType.FLOAT_INPUT)
        for profile in self._profiles:
            poses = [(hand, f"{user}/input/grip/pose") for user in users]
            grips = [(self._grip, f"{user}/input/{PROFILES[profile][1]}") for user in users]
            if not self._suggest(profile, [*poses, *grips]):
                self._suggest(profile, poses)
        self._space_of(hand, HANDS)
        if self._vive:
            trackers = self._action("tracker_pose", "Trackers", list(VIVE_ROLES.values()), xr.ActionType.POSE_INPUT)
            if self._suggest(VIVE_PROFILE, [(trackers, f"{user}/input/grip/pose") for user in VIVE_ROLES.values()]):
                self._space_of(trackers, VIVE_ROLES)
        xr.attach_session_action_sets(self._session, xr.SessionActionSetsAttachInfo(action_sets=[self._actions]))
        self._sync_info = xr.ActionsSyncInfo(
            active_action_sets=[xr.ActiveActionSet(self._actions, xr.NULL_PATH)],
        )

    def _action(self, name: str, title: str, users: list[str], kind: Any) -> Any:
        return xr.create_action(
            self._actions,
            xr.ActionCreateInfo(
                action_name=name,
                action_type=kind,
                subaction_paths=[self._path(u) for u in users],
                localized_action_name=title,
            ),
        )

    def _suggest(self, profile: str, inputs: list[tuple[Any, str]]) -> bool:
        """Suggest pairs of action and input for a profile to the OpenXR runtime; return whether it supports all."""
        bindings = [xr.ActionSuggestedBinding(action, self._path(path)) for action, path in inputs]
        try:
            xr.suggest_interaction_profile_bindings(
                self.instance,
                xr.InteractionProfileSuggestedBinding(
                    interaction_profile=self._path(profile), suggested_bindings=bindings
                ),
            )
        except (xr.exception.PathUnsupportedError, xr.exception.PathInvalidError):
            return False
        return True

    def _space_of(self, action: Any, users: dict[str, str]) -> None:
        for role, user in users.items():
            info = xr.ActionSpaceCreateInfo(
                action=action,
                subaction_path=self._path(user),
                pose_in_action_space=xr.Posef(xr.Quaternionf(0, 0, 0, 1), xr.Vector3f()),
            )
            self._spaces[ROLES.index(role)] = xr.create_action_space(self._session, info)

    def sample(self) -> TrackerFrame | None:
        """Return the poses of all trackers with a stamp in CLOCK_MONOTONIC, or None before the session has started."""
        self._events()
        if not self._running:
            return None
        focused = self._sync()
        self.grips = self._held_grips() if focused else UNKNOWN_GRIPS
        now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        at = self._xr_time(now_ns)
        out = TrackerFrame(now_ns)
        for role, space in self._spaces.items():
            if role == HEAD_ROLE or focused:
                self._locate(out, role, space, at)
        self._apply_recentring(out, at)
        return out

    def _sync(self) -> bool:
        """Read the buttons of the controllers, and return whether this application has the input focus of OpenXR."""
        try:
            xr.sync_actions(self._session, self._sync_info)
        except xr.exception.SessionNotFocused:
            return False
        return True

    def _held_grips(self) -> Grips:
        held: list[bool | None] = []
        for user in HANDS.values():
            state = xr.get_action_state_float(self._session, xr.ActionStateGetInfo(self._grip, self._path(user)))
            held.append(float(state.current_state) > GRIP_HELD if state.is_active else None)
        return held[0], held[1]

    def _xr_time(self, monotonic_ns: int) -> int:
        if monotonic_ns - self._clocks_ns > CLOCKS_EVERY_NS:
            # The OpenXR extension accepts times of any clock, but converts only times of CLOCK_MONOTONIC correctly.
            given = timespec(monotonic_ns // 1_000_000_000, monotonic_ns % 1_000_000_000)
            at = convert_timespec_time_to_time_khr(self.instance, given)
            self._clocks_ns = monotonic_ns
            self._xr_minus_monotonic = int(getattr(at, "value", at)) - monotonic_ns
        return monotonic_ns + self._xr_minus_monotonic

    def _locate(self, out: TrackerFrame, role: int, space: Any, at: Any) -> None:
        location = xr.locate_space(space, self._base, at)
        flags = int(location._location_flags)  # private; checked with pyopenxr 1.1; the public property is slow
        if flags & _VALID != _VALID:
            out.state[role] = LOST
            return
        p, q = location.pose.position, location.pose.orientation
        out.positions[role] = axes.position(p.x, p.y, p.z)
        out.rotations[role] = rot.normalize(np.array(axes.rotation(q.x, q.y, q.z, q.w)))
        out.state[role] = TRACKED if flags & _TRACKED == _TRACKED else EXTRAPOLATED
        out.sampled_ns[role] = out.stamp_ns

    def _apply_recentring(self, out: TrackerFrame, at: int) -> None:
        known = True
        while self._recentred and at >= self._recentred[0].at:
            change = self._recentred.pop(0)
            self.epoch_moves += 1
            known = known and change.new_from_old is not None
            if change.new_from_old is not None:
                out.new_from_old = compose(change.new_from_old, out.new_from_old)
        if not known:
            out.new_from_old = identity_pose()  # later stages reset at a new epoch, so they need no transform
        out.epoch = self.epoch_moves

    def _events(self) -> None:
        while True:
            try:
                event = xr.poll_event(self.instance)
            except xr.exception.EventUnavailable:
                return
            self._take(event)

    def _take(self, event: Any) -> None:
        kind = xr.StructureType(event.type)
        if kind == xr.StructureType.EVENT_DATA_INSTANCE_LOSS_PENDING:
            raise Ended("the runtime is shutting down")
        if kind == xr.StructureType.EVENT_DATA_SESSION_STATE_CHANGED:
            self._follow(xr.SessionState(_as(event, xr.EventDataSessionStateChanged).state))
        if kind == xr.StructureType.EVENT_DATA_REFERENCE_SPACE_CHANGE_PENDING:
            self._note_recentring(_as(event, xr.EventDataReferenceSpaceChangePending))

    def _follow(self, state: Any) -> None:
        if state == xr.SessionState.READY:
            xr.begin_session(self._session, xr.SessionBeginInfo(xr.ViewConfigurationType.PRIMARY_STEREO))
            self._running = True
        elif state == xr.SessionState.STOPPING:
            self._running = False
            xr.end_session(self._session)
        elif state in (xr.SessionState.EXITING, xr.SessionState.LOSS_PENDING):
            raise Ended(f"the runtime ended the session ({state.name})")

    def _note_recentring(self, event: Any) -> None:
        if xr.ReferenceSpaceType(event.reference_space_type) != self._base_type:
            return
        p, q = event.pose_in_previous_space.position, event.pose_in_previous_space.orientation
        moved = None
        if event.pose_valid:
            moved = inverse_pose(axes.position(p.x, p.y, p.z), axes.rotation(q.x, q.y, q.z, q.w))
        self._recentred.append(Recentred(int(event.change_time), moved))

    def close(self) -> None:
        """Destroy the OpenXR instance and all its objects, and ignore the error of an instance that is already lost."""
        if self.instance is not None:
            try:
                xr.destroy_instance(self.instance)
            except xr.exception.XrException:
                pass
            self.instance = None


def inverse_pose(position: Any, rotation: Any) -> F64:
    back = rot.inverse(rot.normalize(np.array(rotation, np.float64)))
    return np.concatenate([-rot.rotate(back, np.array(position, np.float64)), back])


def _as(event: Any, kind: Any) -> Any:
    return ctypes.cast(ctypes.byref(event), ctypes.POINTER(kind)).contents


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)
