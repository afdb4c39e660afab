"""The panel beside the picture: what to show, sliders of the nodes' settings, buttons, plots."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from mm_ros.core.settings import Spec
from mm_ros.viewing.scene import LAYERS

LABELS = {
    "body": "avatar", "truth": "true body (ghost)", "matched": "matched pose", "trackers": "headset, controllers",
    "wish": "wished trajectory", "feet": "planted feet", "features": "feature vectors", "trail": "trail",
}  # fmt: skip
HIDDEN = ("matched", "features")
CAMERAS = ("orbit", "follow", "first person")
PLOT_SECONDS, PLOT_RATE = 20.0, 5.0
PLOTS = {
    "facing": ("facing error", "°"), "root": ("root error", "cm"), "latency": ("latency p99", "ms"),
    "rate": ("rate", "Hz"),
}  # fmt: skip


class Settings:
    """A slider, box or list for each setting that may change while running; `send(node, name, value)` on a change."""

    def __init__(self, gui: Any, tab: Any, send: Callable[[str, str, Any], None]):
        self._gui, self._tab, self._send = gui, tab, send
        self._handles: dict[tuple[str, str], Any] = {}
        self._quiet = False

    def add(self, node: str, fields: dict[str, tuple[Any, Spec]]) -> None:
        with self._tab, self._gui.add_folder(node, expand_by_default=False):
            for name, (value, spec) in fields.items():
                handle = self._control(name, value, spec)
                if handle is not None:
                    self._handles[(node, name)] = handle
                    handle.on_update(self._changed(node, name, type(value)))

    def _control(self, name: str, value: Any, spec: Spec) -> Any:
        label = name.replace("_", " ")
        hint = spec.description + (f" [{spec.unit}]" if spec.unit else "")
        if isinstance(value, bool):
            return self._gui.add_checkbox(label, value, hint=hint)
        if spec.choices:
            return self._gui.add_dropdown(label, spec.choices, initial_value=value, hint=hint)
        if isinstance(value, float):
            low, high = slider_range(value, spec)
            return self._gui.add_slider(label, low, high, (high - low) / 200, value, hint=hint)
        if isinstance(value, str):
            return self._gui.add_text(label, value, hint=hint)
        return None

    def _changed(self, node: str, name: str, kind: type) -> Callable[[Any], None]:
        def changed(event: Any) -> None:
            if event.client is not None and not self._quiet:  # not when we set it ourselves
                self._send(node, name, kind(event.target.value))

        return changed

    def show(self, node: str, name: str, value: Any) -> None:
        """The node's own value, read back."""
        handle = self._handles.get((node, name))
        if handle is not None and handle.value != value:
            handle.value = value


def slider_range(value: float, spec: Spec) -> tuple[float, float]:
    """The setting's range, narrowed to where a hand can aim: at most five times the default."""
    low = spec.low if spec.low is not None else min(0.0, value)
    high = spec.high if spec.high is not None else max(1.0, 5 * value)
    if value > 0:
        high = min(high, max(5 * value, low + 1e-6))
    return float(low), float(max(high, value))


class Plots:
    """The last seconds of a few figures."""

    def __init__(self, gui: Any):
        from viser import uplot

        self._data = {name: deque[tuple[float, float]](maxlen=int(PLOT_SECONDS * PLOT_RATE)) for name in PLOTS}
        self._handles = {}
        for name, (label, unit) in PLOTS.items():
            self._handles[name] = gui.add_uplot(
                (np.array([0.0, 1.0]), np.array([0.0, 0.0])),
                (uplot.Series(label="s"), uplot.Series(label=f"{label} [{unit}]", stroke="#3b82f6", width=2)),
                title=f"{label} [{unit}]", aspect=2.6, scales={"x": uplot.Scale(time=False)},
                legend=uplot.Legend(show=False),
            )  # fmt: skip

    def add(self, t: float, values: dict[str, float]) -> None:
        for name, value in values.items():
            if np.isfinite(value):
                self._data[name].append((t, value))
            if len(self._data[name]) > 1:
                data = np.array(self._data[name])
                self._handles[name].data = (data[:, 0] - data[-1, 0], data[:, 1])


class Panel:
    """`do(action, …)` is called from viser's threads: it must only note what is wanted."""

    def __init__(self, server: Any, do: Callable[..., None]):
        self._server, self._do = server, do
        gui = server.gui
        tabs = gui.add_tab_group()
        with tabs.add_tab("View"):
            self._add_view(gui)
        tab = tabs.add_tab("Settings")
        self.settings = Settings(gui, tab, lambda node, name, value: do("set", node, name, value))
        with tab:
            self._settings_note = gui.add_markdown("_Waiting for the nodes …_")
        with tabs.add_tab("Figures"):
            self.figures = gui.add_markdown("")
            self.plots = Plots(gui)

    def _add_view(self, gui: Any) -> None:
        self.status = gui.add_markdown("_Waiting for an avatar …_")
        hint = "whom camera, buttons and figures are about"
        self.avatar = gui.add_dropdown("avatar", ("–",), initial_value="–", hint=hint)
        self.camera = gui.add_dropdown("camera", CAMERAS, initial_value="follow")
        hints = {"calibrate": "stand upright first", "reset": "forget all state", "pause": "hold the trackers"}
        for name in ("calibrate", "reset", "pause", "resume"):
            gui.add_button(name, hint=hints.get(name)).on_click(lambda _event, name=name: self._do(name))
        with gui.add_folder("show"):
            for layer in LAYERS:
                box = gui.add_checkbox(LABELS[layer], layer not in HIDDEN)
                box.on_update(lambda event, layer=layer: self._do("show", layer, bool(event.target.value)))

    def avatars(self, names: tuple[str, ...]) -> None:
        if names and tuple(self.avatar.options) != names:
            self.avatar.options = names
            self._settings_note.content = "Changes go to the nodes at once, as ROS parameters."


def settings_of(node: Any) -> dict[str, tuple[Any, Spec]]:
    """Settings of a described node that may change while it runs."""
    out = {}
    for kind in node.settings_types():
        defaults = kind.defaults()
        out.update({name: (defaults[name], spec) for name, spec in kind.specs().items() if spec.live})
    return out
