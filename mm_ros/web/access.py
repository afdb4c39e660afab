"""Access rules for every page that mm_ros serves: address, Host, Origin, token, and limits on what a page may send.

A browser lets any web page open connections to this machine. Three checks keep other pages out:
- the Host header must be an IP address or a name of this machine, so that a foreign name that has been pointed at this
  machine (DNS rebinding) is refused;
- the Origin header, where there is one, must be the page's own;
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
from dataclasses import dataclass, field

from mm_ros.base.errors import MmRosError

# A process that starts the server may set the token by this variable; it then has the address.
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


def new_token() -> str:
    """Return 128 random bits as text that needs no quoting in an address."""
    return secrets.token_urlsafe(16)


def session_token() -> str:
    """Return the token of the environment variable, else a new one."""
    given = os.environ.get(TOKEN_VARIABLE)
    if given is None:
        return new_token()
    if not _TOKEN.fullmatch(given):
        raise MmRosError(
            f"{TOKEN_VARIABLE}: expected 20 to 100 letters, digits, '-' or '_', came {len(given)} characters"
        )
    return given


def address(host: str, port: int, token: str) -> str:
    """Return the address that a user opens; for a server on all interfaces the one for this machine."""
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        shown = host
    else:
        loopback = {4: "127.0.0.1", 6: "[::1]"}[ip.version]
        shown = loopback if ip.is_unspecified else f"[{ip}]" if ip.version == 6 else str(ip)
    return f"http://{shown}:{port}/{token}/"


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
    burst: float = 900.0  # messages that may arrive at once
    clients: int = 16


@dataclass
class Access:
    """The rules for one server. `refused` counts the refusals by reason: host, origin, token, clients, rate."""

    host: str = "127.0.0.1"
    token: str = field(default_factory=session_token)
    limits: Limits = Limits()
    refused: Counter[str] = field(default_factory=Counter)

    def admit(self, path: str, hosts: Sequence[str], origins: Sequence[str]) -> tuple[str, str]:
        """Check a request by its path and all its Host and Origin headers.

        Return (path without the token, "") if it is admitted, else ("", the reason in a sentence).
        """
        if len(hosts) != 1 or not self._is_own_host(hosts[0]):
            return self._refuse("host", f"this server does not have the name '{_shown(hosts)}'")
        if len(origins) > 1 or (origins and not _same_origin(origins[0], hosts[0])):
            return self._refuse("origin", f"a page of '{_shown(origins)}' may not use this server")
        first, _, rest = path.partition("?")[0].removeprefix("/").partition("/")
        if not hmac.compare_digest(first.encode("utf-8", "replace"), self.token.encode()):
            return self._refuse("token", "open the address, with its token, that mm_ros printed at the start")
        return "/" + rest, ""

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
