"""Instructions for opening the headset page, by USB with the program `adb` or by Wi-Fi with address and code, and hints
for frequent problems."""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

UFW = Path("/etc/ufw/ufw.conf")
WARNING_PAGE = (
    "The headset's browser warns of an unknown certificate: press 'Advanced', then 'Proceed' (once per headset)."
)
VISION_PRO = (
    "Apple Vision Pro: open {url}/ca.crt first, install the profile, and switch it on in Settings > General > About > "
    "Certificate Trust Settings."
)


@dataclass
class Usb:
    """Result of the attempt to open the page by USB; `ready` is true if the page was opened on the headset."""

    lines: list[str] = field(default_factory=list)
    ready: bool = False
    serial: str = ""


def by_usb(port: int, url: str, serial: str = "") -> Usb:
    """Forward a port of the headset by USB to this machine, and open the page in the headset's browser."""
    if shutil.which("adb") is None:
        return Usb(["adb is not installed: sudo apt install adb; or use the Wi-Fi"])
    listing = _adb("devices", "-l")
    if listing is None:
        return Usb(["adb does not answer: adb kill-server, then start this command again"])
    devices = dict(re.findall(r"^(\S+)\s+(device|unauthorized|offline|no permissions)\b", listing, re.M))
    if serial:
        if serial not in devices:
            return Usb([f"no device has the serial number {serial}. Devices: {', '.join(devices) or 'none'}"])
        devices = {serial: devices[serial]}
    if not devices:
        return Usb(
            ["adb finds no device: connect the headset by USB, and switch on its developer mode (not for Vision Pro)"]
        )
    if len(devices) > 1:
        return Usb([f"adb finds {len(devices)} devices: choose one with --serial. Devices: {', '.join(devices)}"])
    name, state = next(iter(devices.items()))
    if state == "unauthorized":
        return Usb(["the headset does not trust this computer: put it on, and accept 'Allow USB debugging'"])
    if state != "device":
        return Usb([f"the headset {name} is {state}: pull the cable, plug it in again, and wake the headset up"])
    forwarded = _adb("-s", name, "reverse", f"tcp:{port}", f"tcp:{port}")
    if forwarded is None or f"tcp:{port}" not in (_adb("-s", name, "reverse", "--list") or ""):
        return Usb([f"adb could not forward port {port} of {name}: pull the cable and plug it in again"])
    opened = _adb("-s", name, "shell", "am", "start", "-a", "android.intent.action.VIEW", "-d", f"'{url}'")
    if opened is None or "Error" in opened:
        return Usb([f"{name} is connected; open its browser and type http://localhost:{port}/…: {url}"], True, name)
    return Usb([f"{name} is connected, and the page is open in its browser"], True, name)


def is_forwarded(usb: Usb, port: int) -> bool:
    """Return whether the program adb still forwards `port` to the headset; it stops when the USB cable is pulled."""
    return f"tcp:{port}" in (_adb("-s", usb.serial, "reverse", "--list") or "")


def _adb(*words: str) -> str | None:
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(["adb", *words], capture_output=True, text=True, timeout=15, stdin=subprocess.DEVNULL)
        if done.returncode == 0:
            return done.stdout
    return None


def firewalls(port: int) -> list[str]:
    """Return sentences about firewalls of this machine that may block the headset page."""
    out = []
    with suppress(OSError):
        if re.search(r"^ENABLED=yes", UFW.read_text(), re.M):
            out.append(f"the firewall ufw is switched on: sudo ufw allow {port}/tcp")
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["firewall-cmd", "--state"], capture_output=True, text=True, timeout=5, stdin=subprocess.DEVNULL
        )
        if "running" in done.stdout.split():
            out.append(f"the firewall firewalld is running: sudo firewall-cmd --add-port={port}/tcp")
    return out


def wifi_lines(urls: list[str], code: str, token: str) -> list[str]:
    """Return the instructions for opening the headset page by Wi-Fi."""
    if not urls:
        return ["this computer has no address in a local network: connect it to the Wi-Fi of the headset"]
    out = [f"type into the headset's browser: {' or '.join(urls)}", WARNING_PAGE, f"type the code {code}"]
    out.append(VISION_PRO.format(url=urls[0]))
    return out


def qr_code(url: str) -> list[str]:
    """Return lines of text that show a web address as a QR code, or no lines if the package segno is not installed."""
    try:
        import segno
    except ImportError:
        return []
    rows = [list(row) for row in segno.make(url, micro=False, error="l").matrix_iter(border=2)]
    rows += [[0] * len(rows[0])] * (len(rows) % 2)
    # A line of text shows two rows of the QR code by block characters of half height. The light squares of the QR code
    # are drawn, because most terminals are dark.
    blocks = {(1, 1): " ", (1, 0): "▄", (0, 1): "▀", (0, 0): "█"}
    return [
        "".join(blocks[bool(a), bool(b)] for a, b in zip(upper, lower, strict=True))
        for upper, lower in zip(rows[::2], rows[1::2], strict=True)
    ]


def progress(status: dict[str, Any] | None) -> str:
    """Return a sentence about the next step of the user from the status of the headset page, or "" if the headset sends
    poses."""
    if status is None:
        return "the graph has not started yet"
    session, seen = status.get("session", {}), status.get("seen", {})
    if session.get("active"):
        if session.get("hz", 0) < 1:
            return status.get("trouble") or "the headset is in VR but sends no poses"
        return ""
    if seen.get("pages", 0):
        return "the page is open, but no headset is in VR: press 'Enter VR' on the headset"
    if seen.get("wrong_codes", 0):
        return "a wrong code was typed on the headset: type the one printed above"
    if seen.get("code_pages", 0):
        return "the headset has opened the page that asks for the code: type the one printed above"
    return ""


def nothing_came(wifi: bool, usb: Usb, port: int) -> list[str]:
    """Return possible causes why no request of the headset's browser has arrived."""
    out = []
    if usb.ready and not is_forwarded(usb, port):
        out.append("the forwarding of adb has vanished (the cable was pulled): start this command again")
    elif usb.ready:
        out.append("is the browser of the headset open? The address is http://localhost, not https")
    if wifi:
        out += firewalls(port + 1)
        out.append("are headset and computer in the same Wi-Fi? Guest networks separate devices")
        out.append(f"the address begins with https:// and ends with :{port + 1}; http:// gives an empty answer")
    if not usb.ready and not wifi:
        out.append("without a cable, start `mm_ros headset --wifi`")
    return out
