"""Serve the inspector page with viser's web server, protected by the access rules of mm_ros.

The library viser has no option for access rules, so this module replaces the function `serve` of the package websockets
while viser creates its server. The replacement of `serve` was checked with viser 1.1, the version that pyproject.toml
requires. If another version of viser does not call the replaced `serve`, no page is served.
"""

from __future__ import annotations

import atexit
import io
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any
from weakref import WeakKeyDictionary

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.web.access import HEADERS, Access, Bucket, address

# Kinds of messages that are accepted from the page. viser would also accept file uploads and requests to share the page
# publicly.
TAKEN = frozenset({"ViewerCameraMessage", "GuiUpdateMessage", "GuiFormSubmitMessage", "GuiFormDirtyMessage"})
_making = threading.Lock()
_access: WeakKeyDictionary[Any, Access] = WeakKeyDictionary()  # server → its rules


def serve(host: str, port: int, access: Access | None = None) -> Any:
    """Return a viser server for the inspector page, whose address `url_of` returns. Without `access`, the access rules
    are the default rules with a new token."""
    try:
        import viser
    except ImportError:
        raise MmRosError(f"the viewer needs viser: {setup_command('viewer')}") from None
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))  # if the port is in use, viser would choose another port
        except OSError as error:
            where = f"{host}:{port} ({error.strerror})"
            raise MmRosError(f"cannot serve the page at {where}; choose another --host or --port") from None
    access = access or Access(host)
    with _making, _guarded(access) as served:
        server = viser.ViserServer(host, port, verbose=False)
    if not served:
        server.stop()
        raise MmRosError(
            f"viser {viser.__version__} serves its page in a way that the access rules do not support; "
            f"install the version that mm_ros requires: {setup_command('viewer')}"
        )
    _access[server] = access
    atexit.unregister(server.stop)
    atexit.register(stop, server)
    return server


def stop(server: Any) -> None:
    """Stop the server of the inspector page, without the message that viser prints."""
    atexit.unregister(stop)
    with redirect_stdout(io.StringIO()):
        server.stop()


def access_of(server: Any) -> Access:
    """Return the access rules of a page server that `serve` has made."""
    return _access[server]


def url_of(server: Any) -> str:
    """Return the address, with the token, of the page of a server that `serve` has made."""
    return address(server.get_host(), server.get_port(), access_of(server).token)


@contextmanager
def _guarded(access: Access) -> Iterator[list[str]]:
    """Apply the access rules `access` to the server that viser creates in this context; the yielded list stays empty if
    viser did not use them."""
    import rich
    from viser.infra import _infra

    real, served = _infra.websockets, list[str]()
    _infra.websockets = _Websockets(real, access, served)
    console = rich.get_console()
    quiet, console.quiet = console.quiet, True  # viser would print an address without the token
    try:
        yield served
    finally:
        _infra.websockets, console.quiet = real, quiet


class _Websockets:
    """Replacement for the package `websockets` with another function `asyncio.server.serve`."""

    def __init__(self, real: Any, access: Access, served: list[str]) -> None:
        self._real, self._access, self._served = real, access, served
        self.asyncio = self.server = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def serve(self, handler: Any, host: str, port: int, *, process_request: Any, **options: Any) -> Any:
        from websockets.asyncio.server import serve

        self._served.append(f"{host}:{port}")
        ours = {
            "process_request": _judge(self._access, process_request),
            "create_connection": _connection_class(self._access),
            "max_size": self._access.limits.message_bytes,
            "close_timeout": 1.0,  # [s]; a page that sends too many messages may not confirm the end
        }
        return serve(_limit(self._access, handler), host, port, **options | ours)


def _judge(access: Access, process_request: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def judge(connection: Any, request: Any) -> Any:
        headers = request.headers
        path, why = access.admit(request.path, headers.get_all("Host"), headers.get_all("Origin"))
        if why:
            return connection.respond(403, why + "\n")
        request.path = path
        response = process_request(connection, request)
        if response is not None:
            for name, value in HEADERS.items():
                response.headers[name] = value
        return response

    return judge


def _limit(access: Access, handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
    live = set[Any]()

    async def limited(connection: Any) -> None:
        from websockets.exceptions import ConnectionClosed

        if len(live) >= access.limits.clients:
            access.refused["clients"] += 1
            await connection.close(1013, "too many pages are open")
            return
        live.add(connection)
        try:
            await handler(connection)
        except ConnectionClosed:
            pass
        except Exception:  # a malformed message may cause any exception
            await connection.close(1003, "message not understood")
        finally:
            live.discard(connection)

    return limited


def _connection_class(access: Access) -> Any:
    """Return a connection class that limits the rate of messages and ignores messages of kinds that the page does not
    need."""
    from websockets.asyncio.server import ServerConnection

    class Connection(ServerConnection):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._rate = Bucket(access.limits)

        async def recv(self, decode: bool | None = None) -> Any:
            while True:
                message = await super().recv(decode)
                if not self._rate.take():
                    access.refused["rate"] += 1
                    await self.close(1008, "too many messages")
                elif _is_taken(message):
                    return message

    return Connection


def _is_taken(message: Any) -> bool:
    """Return whether the server accepts the message `message` from the inspector page. Messages that update a control
    may only change its value."""
    import msgspec

    with suppress(msgspec.MsgspecError, RecursionError, AttributeError, TypeError):
        content = msgspec.msgpack.decode(message)
        kind = content.get("type")
        return kind in TAKEN and (kind != "GuiUpdateMessage" or list(content.get("updates", ())) == ["value"])
    return False
