"""Getting in: what `mm_ros headset` prints, and each line followed as far as a machine without a headset can."""

import os
import shutil
import signal
import ssl
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from chromium import CHROMIUM, Browser, free_port
from processes import PATIENCE_S, running, warm

from mm_ros.web.headset import ways
from mm_ros.web.headset.ways import Usb, by_usb, nothing_came, progress

URL = "http://localhost:8090/token/"
LISTS = {
    "none": "List of devices attached\n",
    "one": "List of devices attached\n1WMHH815D10 device usb:1-2 product:eureka model:Quest_3 device:eureka\n",
    "two": "List of devices attached\nAAA device usb:1\nBBB device usb:2\n",
    "unauthorized": "List of devices attached\n1WMHH815D10 unauthorized usb:1-2\n",
    "offline": "List of devices attached\n1WMHH815D10 offline usb:1-2\n",
}


@pytest.fixture
def adb(tmp_path, monkeypatch):
    """A stand-in for adb that prints a list of devices and writes down what it was asked."""

    def make(devices, forwards=True):
        (tmp_path / "devices").write_text(LISTS[devices])
        rule = "UsbFfs tcp:8090 tcp:8090" if forwards else ""
        program = tmp_path / "adb"
        program.write_text(
            f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n'
            f'case "$*" in devices*) cat {tmp_path}/devices;; *--list*) echo "{rule}";; *start*) echo Starting;; esac\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return tmp_path / "asked"

    return make


def test_with_a_headset_on_usb_the_page_is_opened_on_it(adb):
    asked = adb("one")
    usb = by_usb(8090, URL)
    assert usb.ready and usb.serial == "1WMHH815D10"
    lines = asked.read_text().splitlines()
    assert "-s 1WMHH815D10 reverse tcp:8090 tcp:8090" in lines
    assert f"-s 1WMHH815D10 shell am start -a android.intent.action.VIEW -d '{URL}'" in lines


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        ("none", "finds no device"),
        ("two", "2 devices: choose one with --serial. Devices: AAA, BBB"),
        ("unauthorized", "accept 'Allow USB debugging'"),
        ("offline", "is offline: pull the cable"),
    ],
)
def test_each_trouble_of_usb_is_a_sentence(adb, devices, words):
    adb(devices)
    usb = by_usb(8090, URL)
    assert not usb.ready and words in usb.lines[0]


def test_a_serial_number_chooses_the_device(adb):
    adb("two")
    assert by_usb(8090, URL, "BBB").serial == "BBB"
    assert "no device has the serial number CCC" in by_usb(8090, URL, "CCC").lines[0]


def test_without_adb_the_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "sudo apt install adb" in by_usb(8090, URL).lines[0]


def test_a_pulled_cable_is_noticed(adb):
    adb("one", forwards=False)
    assert "could not forward" in by_usb(8090, URL).lines[0]
    assert any("cable was pulled" in line for line in nothing_came(False, Usb([], True, "1WMHH815D10"), 8090))


def test_firewalls_are_named_with_the_command_that_opens_the_port(tmp_path, monkeypatch):
    (tmp_path / "ufw.conf").write_text("ENABLED=yes\n")
    (tmp_path / "firewall-cmd").write_text("#!/bin/sh\necho running\n")
    (tmp_path / "firewall-cmd").chmod(0o755)
    monkeypatch.setattr(ways, "UFW", tmp_path / "ufw.conf")
    monkeypatch.setenv("PATH", str(tmp_path))
    text = "\n".join(ways.firewalls(8091))
    assert "sudo ufw allow 8091/tcp" in text and "--add-port=8091/tcp" in text
    (tmp_path / "ufw.conf").write_text("ENABLED=no\n")
    (tmp_path / "firewall-cmd").unlink()
    assert ways.firewalls(8091) == []


def test_the_steps_are_told_from_the_status():
    assert "not started" in progress(None)
    assert progress({"session": {"active": True, "hz": 72}}) == ""
    assert progress({"session": {"active": True, "hz": 0}, "trouble": "a menu is open"}) == "a menu is open"
    assert "Enter VR" in progress({"session": {}, "seen": {"pages": 1}})
    assert "wrong code" in progress({"session": {}, "seen": {"pages": 0, "wrong_codes": 1, "code_pages": 1}})
    assert "asks for the code" in progress({"session": {}, "seen": {"pages": 0, "wrong_codes": 0, "code_pages": 1}})


def test_the_qr_code_is_read_by_another_program():
    cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed (extra [webcam])")
    pytest.importorskip("segno", reason="segno is not installed (extra [webxr])")
    import numpy as np

    url = "https://192.168.1.20:8091/abcdefghijklmnopqrstuv/"
    rows = ways.qr_code(url)
    light = {" ": (0, 0), "▄": (0, 1), "▀": (1, 0), "█": (1, 1)}
    picture = np.array([[light[c][k] for c in row] for row in rows for k in (0, 1)], np.uint8) * 255
    assert cv2.QRCodeDetector().detectAndDecode(np.kron(picture, np.ones((8, 8), np.uint8)))[0] == url


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt install chromium")
def test_the_wifi_way_in_a_browser(tmp_path, monkeypatch):
    """The warning is passed, a wrong code is refused, the right one opens the page by wss, and is typed only once."""
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra [test])")
    pytest.importorskip("websockets", reason="websockets is not installed (extra [webxr])")
    from mm_ros.web.headset.server import HeadsetServer

    monkeypatch.setenv("MM_ROS_HEADSET", str(tmp_path))
    monkeypatch.setenv("MM_ROS_HEADSET_CODE", "123456")
    server = HeadsetServer(free_port(), wifi=True)
    server.start()
    secure = f"https://127.0.0.1:{server.port + 1}"
    try:
        trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        with urllib.request.urlopen(f"{secure}/ca.crt", context=trusting, timeout=PATIENCE_S) as answer:
            assert answer.headers["Content-Type"] == "application/x-x509-ca-cert"
            assert answer.read() == (tmp_path / "ca.crt").read_bytes()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(f"{secure}/page.js", context=trusting, timeout=PATIENCE_S)
        with sync.sync_playwright() as p:
            browser = Browser(p)
            with browser.within(2 * PATIENCE_S):
                page = browser.new_page()
                with pytest.raises(sync.Error, match="ERR_CERT_AUTHORITY_INVALID"):
                    page.goto(secure)
                browser.close_page(page)
                page = browser.new_page(ignore_https_errors=True)  # 'Advanced', 'Proceed'
                page.goto(secure)
                page.fill("#code", "000000")
                page.get_by_text("this is not the code").wait_for()
                page.fill("#code", "123456")
                page.wait_for_url(f"{secure}/{server.token}/")
                page.get_by_text("no headset is in VR").wait_for()
                assert page.evaluate("isSecureContext && crossOriginIsolated")
                page.goto(secure)
                page.wait_for_url(f"{secure}/{server.token}/")
                browser.close_page(page)
            browser.close()
    finally:
        server.close()


@pytest.mark.slow
def test_the_command_prints_the_ways_and_what_is_wrong(tmp_path, adb):
    pytest.importorskip("mm_ros.msg", reason="the messages are not built")
    pytest.importorskip("websockets", reason="websockets is not installed (extra [webxr])")
    adb("none")
    port = free_port()
    warm()
    command = [sys.executable, "-m", "mm_ros", "headset", "--port", str(port), "--no-inspector"]
    environment = {**os.environ, "MM_ROS_HEADSET": str(tmp_path / "own"), "MM_ROS_USERS": str(tmp_path / "users")}
    log = tmp_path / "log"
    options = {"env": environment, "start_new_session": True}
    with log.open("w") as out, running(command, stdout=out, stderr=out, **options) as process:
        until = time.monotonic() + 240.0
        while "without a cable, start" not in log.read_text():  # the last line of what is wrong
            assert process.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        text = log.read_text()
        assert "nothing came from a headset" in text
        assert "adb finds no device" in text and "start `mm_ros headset --wifi`" in text
        url = next(line.split()[-1] for line in text.splitlines() if "also to watch" in line)
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as page:  # the printed address is the page
            assert b"Enter VR" in page.read()
        assert stat.S_IMODE((tmp_path / "own" / "token").stat().st_mode) == 0o600
        process.send_signal(signal.SIGINT)
        assert process.wait(180) in (0, 130)
    forget = [*command[:4], "--forget"]
    done = subprocess.run(forget, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    assert "token" in done.stdout and not (tmp_path / "own" / "token").exists()
