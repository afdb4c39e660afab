"""Fast updates of bones, frames and cameras on the inspector page, which bypass the slow setters of viser.

An update of one bone by viser's setters takes 70 µs, and a frame of two bodies takes 6 ms. The setters of viser compare
values with `np.allclose` and serialize messages by the type hints of their class; this module does neither, but sends
the messages directly. The module `swift` uses internal names of viser, which were checked with viser 1.1. If a version
of viser lacks one of these internal names, the setters are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

Numbers = Sequence[float]


@cache
def swift(message: type) -> type:
    """Return a subclass of the viser message class `message` whose messages are serialized faster."""
    from viser.infra._messages import wire_field_names

    names = wire_field_names(message)
    type_on_wire = message.__name__

    class _Swift(message):  # The class name has an underscore so that viser does not register the class.
        def as_serializable_dict(self, binary_buffers: Any = None) -> dict[str, Any]:
            out = {name: getattr(self, name) for name in names}
            out["type"] = type_on_wire
            return out

    _Swift.__name__ = _Swift.__qualname__ = f"_Swift{type_on_wire}"
    return _Swift


class Setters:
    """Moves the objects on the inspector page by the documented setters of viser."""

    def bone(self, mesh: Any, j: int, position: Numbers | None, wxyz: Numbers | None) -> None:
        if position is not None:
            mesh.bones[j].position = position
        if wxyz is not None:
            mesh.bones[j].wxyz = wxyz

    def place(self, handle: Any, position: Numbers, wxyz: Numbers) -> None:
        handle.position, handle.wxyz = position, wxyz

    def camera(self, client: Any, position: Numbers, look_at: Numbers) -> None:
        client.camera.position = position
        client.camera.look_at = look_at

    def now(self) -> None:
        """Send queued messages to the page at once. Without the fast updates, this method does nothing."""


class Swift(Setters):
    """Moves the objects on the inspector page faster, without the setters of viser. The constructor raises
    AttributeError or ImportError if the version of viser is not supported."""

    def __init__(self, server: Any) -> None:
        from viser import _messages as m

        self._bone_position, self._bone_turn = swift(m.SetBonePositionMessage), swift(m.SetBoneOrientationMessage)
        self._position, self._turn = swift(m.SetPositionMessage), swift(m.SetOrientationMessage)
        self._eye, self._look_at = swift(m.SetCameraPositionMessage), swift(m.SetCameraLookAtMessage)
        self._queue: Callable[[Any], None] = server.scene._queue_scene_message
        self._flush = server.flush

    def bone(self, mesh: Any, j: int, position: Numbers | None, wxyz: Numbers | None) -> None:
        if position is not None:
            self._queue(self._bone_position(mesh.name, j, tuple(position)))
        if wxyz is not None:
            self._queue(self._bone_turn(mesh.name, j, tuple(wxyz)))

    def place(self, handle: Any, position: Numbers, wxyz: Numbers) -> None:
        self._queue(self._position(handle.name, tuple(position)))
        self._queue(self._turn(handle.name, tuple(wxyz)))

    def camera(self, client: Any, position: Numbers, look_at: Numbers) -> None:
        queue = client._websock_connection.queue_message
        queue(self._eye(tuple(position)))
        queue(self._look_at(tuple(look_at)))

    def now(self) -> None:
        self._flush()


def mover(server: Any) -> Setters:
    """Return a `Swift` if the installed version of viser supports it, else the slower `Setters`."""
    try:
        return Swift(server)
    except (AttributeError, ImportError):
        return Setters()
