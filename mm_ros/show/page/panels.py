"""The panel beside the picture: what to show, sliders of the nodes' settings, buttons, plots."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.base.settings import Spec
from mm_ros.show.page.scene import HIDDEN, LAYERS

LABELS = {
    "body": "avatar", "truth": "true body", "matched": "matched pose", "trackers": "devices",
    "wish": "wished path", "found": "matched path", "feet": "planted feet",
    "features": "feature vectors", "trail": "trail", "landmarks": "camera's landmarks",
}  # fmt: skip
HINTS = {
    "truth": "of a synthetic or mocap user, who is known", "matched": "before head, hands and feet are put right",
    "trackers": "headset, controllers, trackers", "wish": "blue: where the head says that the body goes",
    "found": "orange: where the motion goes that was found", "feet": "orange: locked; yellow: touch the floor",
    "landmarks": "of pose_estimator, where there is one",
    "features": "blue: asked for, orange: found; feet, and velocities of feet and hips",
}  # fmt: skip
BUTTONS = {
    "user": (("calibrate", "reset"), "calibrate: stand upright first; reset: all nodes forget their state"),
    "trackers": (("pause", "resume"), "hold the trackers: the avatar comes to a stand"),
}
PLOT_SECONDS, PLOT_RATE = 20.0, 5.0
PLOTS = {
    "facing": ("facing error", "°", "#3b82f6"), "root": ("root error", "cm", "#0d9488"),
    "latency": ("latency p99", "ms", "#e8590c"), "rate": ("rate", "Hz", "#7048e8"),
    "cost": ("search cost", "", "#868e96"),
}  # fmt: skip


class KnownFiles:
    """What the page offers for a setting that names a file: the default, what the node has had, and files beside those.

    The page chooses by label; a path that comes from a page is no label, and is ignored.
    """

    DEFAULT, MOST = "default", 50

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix
        self._paths = {self.DEFAULT: ""}

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self._paths)

    def label(self, path: str) -> str:
        """The label of a path, which is known from now on."""
        if path not in self._paths.values():
            self._add(path)
            with suppress(OSError, ValueError):
                beside = sorted(Path(path).parent.glob(f"*{self._suffix}"))[: self.MOST]
                for found in (str(f) for f in beside if f.is_file()):
                    if found not in self._paths.values():
                        self._add(found)
        return next(label for label, known in self._paths.items() if known == path)

    def _add(self, path: str) -> None:
        name = Path(path).name
        self._paths[name if name not in self._paths else path] = path

    def path(self, label: str) -> str | None:
        return self._paths.get(label)


class Settings:
    """A slider, box or list for each setting that may change while running; `send(node, name, value)` on a change."""

    def __init__(self, gui: Any, tab: Any, send: Callable[[str, str, Any], None]):
        self._gui, self._tab, self._send = gui, tab, send
        self._folders: dict[str, Any] = {}
        self._handles: dict[tuple[str, str], Any] = {}
        self._files: dict[tuple[str, str], KnownFiles] = {}
        with tab:
            self._note = gui.add_markdown("_Waiting for the nodes …_", order=-1.0)

    def note(self, text: str) -> None:
        self._note.content = text

    def clear(self) -> None:
        for folder in self._folders.values():
            folder.remove()
        self._folders.clear()
        self._handles.clear()
        self._files.clear()
        self.note("_Waiting for the nodes …_")

    def add(self, node: str, place: int, fields: dict[str, tuple[Any, Spec]]) -> None:
        """A folder of a node, with the values that it has now."""
        if node in self._folders:
            return
        self.note("Changes go to the nodes at once, as ROS parameters.")
        with self._tab:
            self._folders[node] = self._gui.add_folder(node, expand_by_default=False, order=float(place))
        with self._folders[node]:
            for name, (value, spec) in fields.items():
                changed = self._changed(node, name, type(value))
                if spec.file:
                    self._handles[(node, name)] = self._file(node, name, value, spec)
                elif isinstance(value, str) and not spec.choices:
                    self._handles[(node, name)] = self._text(name, value, spec, changed)
                elif (handle := self._control(name, value, spec)) is not None:
                    self._handles[(node, name)] = handle
                    handle.on_update(lambda event, changed=changed: changed(event, event.target))

    def _control(self, name: str, value: Any, spec: Spec) -> Any:
        label = name.replace("_", " ")
        hint = spec.description + (f" [{spec.unit}]" if spec.unit else "")
        if isinstance(value, bool):
            return self._gui.add_checkbox(label, value, hint=hint)
        if spec.choices:
            return self._gui.add_dropdown(label, spec.choices, initial_value=value, hint=hint)
        if isinstance(value, float):
            low, high = slider_range(value, spec)
            return self._gui.add_slider(label, low, high, slider_step(low, high), value, hint=hint)
        if isinstance(value, int):
            return self._gui.add_number(label, value, spec.low, spec.high, 1, hint=hint)
        return None

    def _file(self, node: str, name: str, value: str, spec: Spec) -> Any:
        files = self._files[(node, name)] = KnownFiles(spec.file)
        label = files.label(value)
        handle = self._gui.add_dropdown(
            name.replace("_", " "), files.labels, initial_value=label, hint=spec.description
        )

        def changed(event: Any) -> None:
            path = files.path(event.target.value)
            if event.client is not None and path is not None:
                self._send(node, name, path)
            elif path is None:
                event.target.value = KnownFiles.DEFAULT

        handle.on_update(changed)
        return handle

    def _text(self, name: str, value: str, spec: Spec, changed: Callable[[Any, Any], None]) -> Any:
        """Goes to the node at Enter: half a word would be refused."""
        form = self._gui.add_form(None)
        with form:
            handle = self._gui.add_text(name.replace("_", " "), value, hint=f"{spec.description} [Enter]")
        form.on_submit(lambda event: changed(event, handle))
        return handle

    def _changed(self, node: str, name: str, kind: type) -> Callable[[Any, Any], None]:
        def changed(event: Any, handle: Any) -> None:
            if event.client is not None:  # not when we set it ourselves
                self._send(node, name, kind(handle.value))

        return changed

    def show(self, node: str, name: str, value: Any) -> None:
        """The value that the node has, whatever the hand said."""
        handle = self._handles.get((node, name))
        if (node, name) in self._files:
            value = self._files[(node, name)].label(value)
            if handle is not None and tuple(handle.options) != self._files[(node, name)].labels:
                handle.options = self._files[(node, name)].labels
        if handle is None or handle.value == value:
            return
        if hasattr(handle, "max") and hasattr(handle, "step"):  # set elsewhere, beyond what the slider shows
            handle.min, handle.max = min(handle.min, value), max(handle.max, value)
        handle.value = value


def slider_range(value: float, spec: Spec) -> tuple[float, float]:
    """The setting's range, narrowed to where a hand can aim: at most five times the value."""
    low = spec.low if spec.low is not None else min(0.0, value)
    high = spec.high if spec.high is not None else max(1.0, 5 * value)
    if value > 0:
        high = min(high, max(5 * value, low + 1e-6))
    return float(min(low, value)), float(max(high, value))


def slider_step(low: float, high: float) -> float:
    """A round number, a hundredth of the range or less."""
    whole = 10.0 ** math.floor(math.log10(max(high - low, 1e-9) / 100))
    return round(whole * max(k for k in (1, 2, 5) if k * whole <= (high - low) / 100 * (1 + 1e-9)), 9)


class Plots:
    """The last seconds of a few figures."""

    def __init__(self, gui: Any):
        from viser import uplot

        self._data = {name: deque[tuple[float, float]](maxlen=int(PLOT_SECONDS * PLOT_RATE)) for name in PLOTS}
        self._handles = {}
        for name, (label, unit, color) in PLOTS.items():
            title = f"{label} [{unit}]" if unit else label
            self._handles[name] = gui.add_uplot(
                (np.array([0.0, 1.0]), np.array([0.0, 0.0])),
                (uplot.Series(label="s"), uplot.Series(label=title, stroke=color, width=2)),
                title=title, height=120, scales={"x": uplot.Scale(time=False)}, legend=uplot.Legend(show=False),
                visible=False,
            )  # fmt: skip

    def add(self, t: float, values: dict[str, float]) -> None:
        """A figure that nobody knows (the truth of a real user) has no plot."""
        for name, value in values.items():
            data, handle = self._data[name], self._handles[name]
            if not np.isfinite(value):
                continue
            data.append((t, value))
            if len(data) > 1:
                points = np.array(data)
                handle.data = (points[:, 0] - points[-1, 0], points[:, 1])
                if not handle.visible:
                    handle.visible = True

    def clear(self) -> None:
        for name, data in self._data.items():
            data.clear()
            self._handles[name].visible = False


class Panel:
    """`do(action, …)` is called from viser's threads: it must only note what is wanted."""

    def __init__(self, server: Any, do: Callable[..., None]):
        self._do = do
        gui = server.gui
        gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(49, 106, 197))
        gui.set_panel_label("mm_ros")
        if hasattr(gui, "main_panel"):  # from viser 1.1 on: beside the picture, not over it
            gui.main_panel.dock_right()
        tabs = gui.add_tab_group()
        self.view = tabs.add_tab("View")
        with self.view:
            self._add_view(gui)
        self.settings = Settings(gui, tabs.add_tab("Settings"), lambda *change: do("set", *change))
        with tabs.add_tab("Figures"):
            self.figures = gui.add_markdown("")
            self.plots = Plots(gui)

    def _add_view(self, gui: Any) -> None:
        self.status = gui.add_markdown("_Waiting for an avatar …_", order=0.0)
        hint = "whom camera, buttons, settings and figures are about"
        self.avatar = gui.add_dropdown("avatar", ("–",), initial_value="–", hint=hint, visible=False, order=1.0)
        self.avatar.on_update(lambda event: self._do("watch", event.target.value))
        for place, (label, (names, hint)) in enumerate(BUTTONS.items()):
            group = gui.add_button_group(label, names, hint=hint, order=3.0 + place)
            group.on_click(lambda event: self._do(event.target.value))
        with gui.add_folder("show", order=9.0):
            beside = gui.add_checkbox("ghost beside", True, hint="or where the true body is, over the avatar")
            beside.on_update(lambda event: self._do("beside", bool(event.target.value)))
            for layer in LAYERS:
                box = gui.add_checkbox(LABELS[layer], layer not in HIDDEN, hint=HINTS.get(layer))
                box.on_update(lambda event, layer=layer: self._do("show", layer, bool(event.target.value)))

    def avatars(self, names: tuple[str, ...]) -> None:
        if names and tuple(self.avatar.options) != names:
            self.avatar.options = names
            self.avatar.visible = len(names) > 1
