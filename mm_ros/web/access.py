"""Access rules for every page that mm_ros serves: address, Host, Origin, token, and limits on what a page may send.

Browsers let any web page open connections to this machine, so each request is checked in three ways. The Host header of
the request must be an IP address or a name of this machine. Foreign names that an attacker's DNS server maps to this
machine (DNS rebinding) are refused. The Origin header of the request, if present, must be that of the page. The path of
the request must begin with the page's secret random token.
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

# Environment variable by which a process that starts the server can set the page's token, to print the page's address.
TOKEN_VARIABLE = "MM_ROS_PAGE_TOKEN"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{20,100}")
_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:(?P<port>\d{1,5}))?")

# Response headers that keep the page's address secret, because the address contains the token: other pages can neither
# embed the page nor receive its address.
HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


# Environment variable by which a process that starts the server sets the pairing code of 6 digits, to print it.
CODE_VARIABLE = "MM_ROS_HEADSET_CODE"
# Environment variables with the addresses of inspector page and headset page, which link to each other. The addresses
# of the pages are not ROS parameters, because they contain the token.
INSPECTOR_VARIABLE, HEADSET_VARIABLE = "MM_ROS_INSPECTOR_PAGE", "MM_ROS_HEADSET_PAGE"


def other_page(variable: str) -> str:
    """Return the address in an environment variable, or "" if the variable is not set or does not contain a web
    address."""
    given = os.environ.get(variable, "")
    return given if re.fullmatch(r"https?://[A-Za-z0-9.:_\[\]/-]{1,200}", given) else ""


def new_token() -> str:
    """Return a new token: 128 random bits as text that needs no escaping in a web address."""
    return secrets.token_urlsafe(16)


def session_token(kept: Path | None = None) -> str:
    """Return the page's token: from the environment variable if it is set, else from the file `kept`, else a new token.
    """
    given = os.environ.get(TOKEN_VARIABLE)
    if given is None:
        return new_token() if kept is None else _kept_token(kept)
    if not _TOKEN.fullmatch(given):
        raise MmRosError(
            f"{TOKEN_VARIABLE}: expected 20 to 100 letters, digits, '-' or '_', came {len(given)} characters"
        )
    return given


def _kept_token(path: Path) -> str:
    """Return the page's token from the private file `path`, which the first call writes. The token is the same at each
    start, so that bookmarks of the page stay valid."""
    with suppress(OSError):
        known = path.read_text("ascii", "replace").strip()
        if _TOKEN.fullmatch(known):
            return known
    token = new_token()
    write_private(path, token.encode() + b"\n")
    return token


def write_private(path: Path, content: bytes) -> None:
    """Write a file completely or not at all, so that only the user of this process can read the file and its folder."""
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
    """Return the web address of a page, which a user opens in a browser. If the server listens on all interfaces,
    return the address for browsers on this machine."""
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        shown = host
    else:
        loopback = {4: "127.0.0.1", 6: "[::1]"}[ip.version]
        shown = loopback if ip.is_unspecified else f"[{ip}]" if ip.version == 6 else str(ip)
    return f"{scheme}://{shown}:{port}/{token}/"


def is_loopback(host: str) -> bool:
    """Return whether a server at the address `host` accepts connections from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@dataclass(frozen=True)
class Limits:
    """Limits on the size and number of the messages that a web page may send to its server. For comparison, the
    inspector page sends about 50 messages of 400 bytes per second while its camera moves."""

    message_bytes: int = 65_536
    messages_per_s: float = 300.0
    burst: float = 900.0  # maximum number of messages that a page may send at once
    clients: int = 16


@dataclass
class Access:
    """Access rules of one web server of mm_ros. The counter `refused` counts refused requests and messages by reason:
    host, origin, token, clients, rate."""

    host: str = "127.0.0.1"
    token: str = field(default_factory=session_token)
    limits: Limits = Limits()
    refused: Counter[str] = field(default_factory=Counter)

    def admit(
        self, path: str, hosts: Sequence[str], origins: Sequence[str], need_origin: bool = False
    ) -> tuple[str, str]:
        """Check a request of a browser by its path, its Host headers and its Origin headers. Return (path without the
        token, "") if the request is admitted, else ("", the reason in a sentence). `need_origin` is true for a
        WebSocket request, because browsers always send an Origin header with a WebSocket request."""
        why = self.foreign(hosts, origins, need_origin)
        if why:
            return "", why
        first, _, rest = path.partition("?")[0].removeprefix("/").partition("/")
        if not hmac.compare_digest(first.encode("utf-8", "replace"), self.token.encode()):
            return self._refuse("token", "open the address, with its token, that mm_ros printed at the start")
        return "/" + rest, ""

    def foreign(self, hosts: Sequence[str], origins: Sequence[str], need_origin: bool = False) -> str:
        """Return "" if the Host and Origin headers are those of this server, else the reason of the refusal."""
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
    """Pairing code of 6 digits that the user types once on a headset instead of the long token. All devices together
    may try a code at most 5 times per minute and 30 times in total. With 30 tries, a code of 6 digits is guessed with a
    probability of at most 1 in 33 000."""

    TRIES_PER_MINUTE, TRIES = 5, 30

    def __init__(self) -> None:
        given = os.environ.get(CODE_VARIABLE, "")
        self.digits = given if re.fullmatch(r"[0-9]{6}", given) else f"{secrets.randbelow(1_000_000):06d}"
        self._tries = 0
        self._recent: list[float] = []

    def judge(self, typed: object) -> str:
        """Return "" if the typed code is right, else the reason of the refusal in a sentence."""
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
    """Limit on the rate of messages (token bucket): on average `messages_per_s`, and at most `burst` at once."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._left, self._at = limits, limits.burst, time.monotonic()

    def take(self) -> bool:
        """Count one message, and return whether the rate of messages is within the limit."""
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
    return "".join(c for c in ", ".join(headers)[:80] if c.isprintable())
