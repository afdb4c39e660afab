"""Panel of the inspector page: layers to show, controls for the settings of nodes, buttons and plots."""

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
from mm_ros.web.access import HEADSET_VARIABLE, other_page

LABELS = {
    "body": "avatar", "truth": "true body", "matched": "matched pose", "trackers": "devices",
    "desired": "desired trajectory", "found": "matched trajectory", "feet": "foot contacts",
    "user_feet": "user's feet",
    "features": "feature vectors", "trail": "trail", "landmarks": "camera landmarks",
}  # fmt: skip
HINTS = {
    "truth": "body of a synthetic or mocap user", "matched": "before head, hands and feet are corrected",
    "trackers": "headset, controllers, body trackers", "desired": "blue: input of motion matching",
    "found": "orange: future of the matched motion", "feet": "orange: locked; yellow: in contact with the floor",
    "user_feet": "green: estimated from headset and controllers; with a disc: standing",
    "landmarks": "landmarks of pose_estimator, if it runs",
    "features": "blue: query, orange: match; feet, and velocities of feet and hips",
}  # fmt: skip
BUTTONS = {
    "user": (("calibrate", "reset"), "calibrate: stand upright first; reset: reset the state of all nodes"),
    "trackers": (("pause", "resume"), "pause publishing the trackers: the avatar stands still"),
}
PLOT_SECONDS, PLOT_RATE = 20.0, 5.0
PLOTS = {
    "facing": ("facing error", "°", "#3b82f6"), "root": ("root error", "cm", "#0d9488"),
    "latency": ("latency p99", "ms", "#e8590c"), "rate": ("rate", "Hz", "#7048e8"),
    "cost": ("search cost", "", "#868e96"),
}  # fmt: skip


class KnownFiles:
    """Choices of a setting whose value is a file: the default, all values that the node has had, and other files in the
    folders of these values. The page sends the label of a choice instead of a path, so that it cannot select any other
    file."""

    DEFAULT, MOST = "default", 50

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix
        self._paths = {self.DEFAULT: ""}

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self._paths)

    def label(self, path: str) -> str:
        """Return the label of the file `path` on the inspector page. A path that is not yet a choice is added to the
        choices, together with the files in its folder."""
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
    """Controls on the inspector page for all settings that can be changed while the nodes run. When the user changes a
    setting, `send(node, name, value)` is called."""

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
        """Add a folder with the controls for the settings of a node to the page. `place` is the folder's position in
        the list of folders, and `fields` has the present values of the settings."""
        if node in self._folders:
            return
        self.note("A change sets the node's ROS parameter at once.")
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
        """Add a text field whose value is sent when the user presses Enter, because the node would refuse an incomplete
        value."""
        form = self._gui.add_form(None)
        with form:
            handle = self._gui.add_text(name.replace("_", " "), value, hint=f"{spec.description} [Enter]")
        form.on_submit(lambda event: changed(event, handle))
        return handle

    def _changed(self, node: str, name: str, kind: type) -> Callable[[Any, Any], None]:
        def changed(event: Any, handle: Any) -> None:
            if event.client is not None:  # `client` is None if the value was not set by a user
                self._send(node, name, kind(handle.value))

        return changed

    def show(self, node: str, name: str, value: Any) -> None:
        """Show the present value of a node's parameter on the inspector page."""
        handle = self._handles.get((node, name))
        if (node, name) in self._files:
            value = self._files[(node, name)].label(value)
            if handle is not None and tuple(handle.options) != self._files[(node, name)].labels:
                handle.options = self._files[(node, name)].labels
        if handle is None or handle.value == value:
            return
        # The slider's range is extended if another program has set a value outside this range.
        if hasattr(handle, "max") and hasattr(handle, "step"):
            handle.min, handle.max = min(handle.min, value), max(handle.max, value)
        handle.value = value


def slider_range(value: float, spec: Spec) -> tuple[float, float]:
    """Return the range of a setting's slider, limited to five times the present value so that the slider is fine
    enough."""
    low = spec.low if spec.low is not None else min(0.0, value)
    high = spec.high if spec.high is not None else max(1.0, 5 * value)
    if value > 0:
        high = min(high, max(5 * value, low + 1e-6))
    return float(min(low, value)), float(max(high, value))


def slider_step(low: float, high: float) -> float:
    """Return the step of a slider: a round number that is at most a hundredth of the slider's range."""
    whole = 10.0 ** math.floor(math.log10(max(high - low, 1e-9) / 100))
    return round(whole * max(k for k in (1, 2, 5) if k * whole <= (high - low) / 100 * (1 + 1e-9)), 9)


class Plots:
    """Plots on the inspector page of measured figures over the last PLOT_SECONDS seconds."""

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
        """Add the measured values of all figures at the time `t` [s] to the plots. The plot of a figure stays hidden
        while the figure has no finite value."""
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
    """Panel with tabs and buttons on the inspector page. The panel calls `do(action, …)` from the threads of viser, so
    the function `do` must only queue the action."""

    def __init__(self, server: Any, do: Callable[..., None]):
        self._do = do
        gui = server.gui
        gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(49, 106, 197))
        gui.set_panel_label("mm_ros")
        if hasattr(gui, "main_panel"):  # From viser 1.1 on, the panel may be beside the scene instead of over it.
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
        hint = "avatar of camera, buttons, settings and figures"
        if headset := other_page(HEADSET_VARIABLE):
            gui.add_markdown(f"[the page for headsets]({headset})", order=0.5)
        self.avatar = gui.add_dropdown("avatar", ("–",), initial_value="–", hint=hint, visible=False, order=1.0)
        self.avatar.on_update(lambda event: self._do("watch", event.target.value))
        for place, (label, (names, hint)) in enumerate(BUTTONS.items()):
            group = gui.add_button_group(label, names, hint=hint, order=3.0 + place)
            group.on_click(lambda event: self._do(event.target.value))
        with gui.add_folder("show", order=9.0):
            beside = gui.add_checkbox("true body beside", True, hint="off: the true body at its own position")
            beside.on_update(lambda event: self._do("beside", bool(event.target.value)))
            for layer in LAYERS:
                box = gui.add_checkbox(LABELS[layer], layer not in HIDDEN, hint=HINTS.get(layer))
                box.on_update(lambda event, layer=layer: self._do("show", layer, bool(event.target.value)))

    def avatars(self, names: tuple[str, ...]) -> None:
        if names and tuple(self.avatar.options) != names:
            self.avatar.options = names
            self.avatar.visible = len(names) > 1
