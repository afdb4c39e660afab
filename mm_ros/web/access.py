"""Access rules for every page that mm_ros serves: address, Host, Origin, token, and limits on what a page may send.

A browser lets any web page open connections to this machine. Three checks keep other pages out:
- the Host header must be an IP address or a name of this machine, so that a foreign name that has been pointed at this
  machine (DNS rebinding) is refused;
- the Origin header, if present, must be that of the page;
- the path begins with a token that is random for each start.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
import socket
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from mm_ros.base.errors import MmRosError

# A process that starts the server may set the token by this environment variable, so that it knows the address.
TOKEN_VARIABLE = "MM_ROS_PAGE_TOKEN"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{20,100}")
_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:(?P<port>\d{1,5}))?")

# Headers of each response: the address contains the token, so other pages must not frame it or receive it.
HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


# This environment variable contains the code of 6 digits, if the process that starts the server prints the code.
CODE_VARIABLE = "MM_ROS_HEADSET_CODE"
# Addresses that one page shows as a link to the other. The addresses are not parameters, because they contain the
# token.
INSPECTOR_VARIABLE, HEADSET_VARIABLE = "MM_ROS_INSPECTOR_PAGE", "MM_ROS_HEADSET_PAGE"


def other_page(variable: str) -> str:
    """Return the address of the other page of this user's graph, or "" if there is none."""
    given = os.environ.get(variable, "")
    return given if re.fullmatch(r"https?://[A-Za-z0-9.:_\[\]/-]{1,200}", given) else ""


def new_token() -> str:
    """Return 128 random bits as text that needs no quoting in an address."""
    return secrets.token_urlsafe(16)


def session_token(kept: Path | None = None) -> str:
    """Return the token of the environment variable, else that of the file `kept`, else a new one."""
    given = os.environ.get(TOKEN_VARIABLE)
    if given is None:
        return new_token() if kept is None else _kept_token(kept)
    if not _TOKEN.fullmatch(given):
        raise MmRosError(
            f"{TOKEN_VARIABLE}: expected 20 to 100 letters, digits, '-' or '_', came {len(given)} characters"
        )
    return given


def _kept_token(path: Path) -> str:
    """Return the token in a file that only this user can read. The file is written at the first call, so that bookmarks
    stay valid.
    """
    with suppress(OSError):
        known = path.read_text("ascii", "replace").strip()
        if _TOKEN.fullmatch(known):
            return known
    token = new_token()
    write_private(path, token.encode() + b"\n")
    return token


def write_private(path: Path, content: bytes) -> None:
    """Write a file completely or not at all. Only this user can read the file and its folder."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}")
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as handle:
            os.fchmod(handle.fileno(), 0o600)
            handle.write(content)
        part.replace(path)
    except OSError as error:
        raise MmRosError(f"{path} cannot be written ({error.strerror})") from error


def address(host: str, port: int, token: str, scheme: str = "http") -> str:
    """Return the address that a user opens; if the server listens on all interfaces, the address for this machine is
    returned.
    """
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        shown = host
    else:
        loopback = {4: "127.0.0.1", 6: "[::1]"}[ip.version]
        shown = loopback if ip.is_unspecified else f"[{ip}]" if ip.version == 6 else str(ip)
    return f"{scheme}://{shown}:{port}/{token}/"


def is_loopback(host: str) -> bool:
    """Return whether a server on this address accepts connections from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@dataclass(frozen=True)
class Limits:
    """Limits on messages of a page. The inspector page's camera sends about 50 messages of 400 bytes per second."""

    message_bytes: int = 65_536
    messages_per_s: float = 300.0
    burst: float = 900.0  # number of messages that may arrive at once
    clients: int = 16


@dataclass
class Access:
    """The rules for one server. `refused` counts the refusals by reason: host, origin, token, clients, rate."""

    host: str = "127.0.0.1"
    token: str = field(default_factory=session_token)
    limits: Limits = Limits()
    refused: Counter[str] = field(default_factory=Counter)

    def admit(
        self, path: str, hosts: Sequence[str], origins: Sequence[str], need_origin: bool = False
    ) -> tuple[str, str]:
        """Check a request by its path and all its Host and Origin headers.

        Return (path without the token, "") if it is admitted, else ("", the reason in a sentence). `need_origin`: the
        request opens a WebSocket, for which browsers always send the origin.
        """
        why = self.foreign(hosts, origins, need_origin)
        if why:
            return "", why
        first, _, rest = path.partition("?")[0].removeprefix("/").partition("/")
        if not hmac.compare_digest(first.encode("utf-8", "replace"), self.token.encode()):
            return self._refuse("token", "open the address, with its token, that mm_ros printed at the start")
        return "/" + rest, ""

    def foreign(self, hosts: Sequence[str], origins: Sequence[str], need_origin: bool = False) -> str:
        """Return the reason why Host or Origin is not that of this server, else ""."""
        if len(hosts) != 1 or not self._is_own_host(hosts[0]):
            return self._refuse("host", f"this server does not have the name '{_shown(hosts)}'")[1]
        if len(origins) != 1 if need_origin else len(origins) > 1:
            return self._refuse("origin", f"expected one Origin header, came {len(origins)}")[1]
        if origins and not _same_origin(origins[0], hosts[0]):
            return self._refuse("origin", f"a page of '{_shown(origins)}' may not use this server")[1]
        return ""

    def _refuse(self, reason: str, sentence: str) -> tuple[str, str]:
        self.refused[reason] += 1
        return "", sentence

    def _is_own_host(self, header: str) -> bool:
        found = _HOST.fullmatch(header)
        if not found:
            return False
        name = found["name"].strip("[]").rstrip(".").lower()
        if is_loopback(name):
            return True
        if is_loopback(self.host):
            return False
        own = socket.gethostname().lower()
        return _is_ip(name) or name in (self.host.lower(), own, own.partition(".")[0] + ".local")


class PairingCode:
    """A code of 6 digits that is typed once on a device instead of the token.

    At most 5 tries a minute and 30 in total, of all devices together, so that guessing succeeds with a probability
    below 1 in 33 000.
    """

    TRIES_PER_MINUTE, TRIES = 5, 30

    def __init__(self) -> None:
        given = os.environ.get(CODE_VARIABLE, "")
        self.digits = given if re.fullmatch(r"[0-9]{6}", given) else f"{secrets.randbelow(1_000_000):06d}"
        self._tries = 0
        self._recent: list[float] = []

    def judge(self, typed: object) -> str:
        """Return "" if the code is right, else the reason in a sentence."""
        now = time.monotonic()
        self._recent = [t for t in self._recent if now - t < 60.0]
        if self._tries >= self.TRIES:
            return "too many wrong codes: restart mm_ros on the computer; it then prints a new code"
        if len(self._recent) >= self.TRIES_PER_MINUTE:
            return "too many wrong codes: wait a minute"
        given = str(typed)[:20].strip().encode("utf-8", "replace")
        if hmac.compare_digest(given, self.digits.encode()):
            return ""
        self._recent.append(now)
        self._tries += 1
        return "this is not the code that mm_ros printed on the computer"


class Bucket:
    """Token bucket: `messages_per_s` on average, at most `burst` at once."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._left, self._at = limits, limits.burst, time.monotonic()

    def take(self) -> bool:
        """Return whether one more message is within the rate."""
        now = time.monotonic()
        self._left = min(self._limits.burst, self._left + (now - self._at) * self._limits.messages_per_s)
        self._at = now
        self._left -= 1.0
        return self._left >= 0.0


def _same_origin(origin: str, host: str) -> bool:
    return origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")


def _is_ip(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _shown(headers: Sequence[str]) -> str:
    """Return headers for a message: shortened, and without control characters."""
    return "".join(c for c in ", ".join(headers)[:80] if c.isprintable())
