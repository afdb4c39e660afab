"""Parts of the headset page that need no browser: bundle, clock, messages, certificates, code."""

import importlib.util
import math
import re
import shutil
import socket
import ssl
import stat
import struct
import subprocess
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from chromium import free_port
from headset_clients import frame, next_pose, pose_message, until_true
from processes import PATIENCE_S

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import LOST, TRACKED
from mm_ros.web.access import PairingCode, session_token
from mm_ros.web.headset import certificates, wire
from mm_ros.web.headset.clock import PageClock
from mm_ros.web.headset.server import HeadsetServer

TOP = Path(__file__).resolve().parents[2]
MS = 1_000_000


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MM_ROS_HEADSET", str(tmp_path / "headset"))
    return tmp_path / "headset"


# ---- the bundle


def build():
    spec = importlib.util.spec_from_file_location("build_page", TOP / "tools" / "headset_page" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_bundle_is_that_of_the_sources():
    made = build()
    known = made.json.loads(made.MANIFEST.read_text())
    assert known == made.manifest((made.STATIC / "page.js").read_bytes()), "run python tools/headset_page/build.py"


def test_the_page_names_no_other_host():
    static = TOP / "mm_ros" / "web" / "headset" / "static"
    for path in [*static.glob("*.html"), static / "page.css", static / "pair.js"]:
        assert not re.search(r"(https?:)?//[a-z]", path.read_text().replace("wss://${location.host}", "")), path.name


# ---- the clock


def test_the_offset_is_that_of_the_shortest_trip():
    clock, rng = PageClock(), np.random.default_rng(1)
    offset_ms = 123_456.789
    for k in range(100):
        there, back = rng.exponential(8.0, 2) + 0.2
        sent = k * 500 * MS
        clock.add(sent, sent + round((there + back) * MS), sent / MS + there - offset_ms)
    now = 100 * 500 * MS
    stamp = clock.stamp_ns(now / MS - offset_ms - 5.0, 0.0, now)
    assert abs(stamp - (now - 5 * MS)) < 1.5 * MS
    assert clock.trip_ms < 5.0


def test_stamps_grow_and_are_never_in_the_future_when_the_page_hangs_or_sleeps():
    clock = PageClock()
    for k in range(3):
        clock.add(k * MS, k * MS + MS, k + 0.5)
    stamps = [clock.stamp_ns(t, 0.0, round(t * MS) + 2 * MS) for t in (10.0, 20.0, 19.0, 19.5, 30.0)]
    assert (np.diff(stamps) > 0).all()
    assert clock.stamp_ns(500.0, 0.0, 40 * MS) <= 40 * MS
    clock = PageClock()  # its clock stood still for a minute
    for k in range(3):
        clock.add(k * MS, k * MS + MS, k + 0.5)
    clock.stamp_ns(10.0, 0.0, 12 * MS)
    clock.add(60_000 * MS, 60_000 * MS + MS, 20.5)
    assert abs(clock.stamp_ns(30.0, 0.0, 60_015 * MS) - 60_010 * MS) < MS


def test_the_devices_own_prediction_is_taken_from_the_stamp():
    clock = PageClock()
    for k in range(3):
        clock.add(k * MS, k * MS + MS, k + 0.5)
    for k in range(200):
        stamp = clock.stamp_ns(10.0 * k + 30.0, 30.0, 10 * k * MS + 2 * MS)
    assert abs(stamp - 10 * 199 * MS) < 0.1 * MS
    assert clock.lead_ms == 30.0


# ---- messages


def test_a_frame_is_read():
    read = wire.read_frame(frame(states=0b100010))
    assert read.states == (TRACKED, LOST, TRACKED)
    assert (read.sequence, read.session, read.time_ms, read.moved, read.reset) == (7, 99, 12.5, None, False)
    assert wire.read_frame(frame(flags=wire.RESET)).reset
    moved = wire.read_frame(frame(flags=wire.MOVED) + struct.pack("<7f", 1, 2, 3, 0, 0, 0, 1))
    assert moved.moved == (1, 2, 3, 0, 0, 0, 1)


BAD = {
    "short": frame()[:-1],
    "flag without transform": frame(flags=wire.MOVED),
    "states": frame(states=3),
    "NaN": frame(poses=[math.nan, 1.6, 0, 0, 0, 0, 1] * 3),
    "far": frame(poses=[1e30, 1.6, 0, 0, 0, 0, 1] * 3),
    "rotation": frame(poses=[0, 1.6, 0, 0, 0, 0, 0] * 3),
    "time": frame(time=math.nan),
    "negative time": frame(time=-1.0),
    "lead": frame(lead=math.inf),
}


@pytest.mark.parametrize("raw", BAD.values(), ids=BAD.keys())
def test_a_bad_frame_is_refused_in_words(raw):
    with pytest.raises(wire.Malformed, match=r"\w+: "):
        wire.read_frame(raw)


def test_a_lost_device_may_have_any_pose():
    assert wire.read_frame(frame(states=0, poses=[math.nan] * 21)).states == (LOST, LOST, LOST)


def test_steering_is_read_and_bounded():
    read = wire.read_steering(struct.pack("<BBxxI3f", 5, wire.JOG | wire.ACTIVE, 7, 1.0, -1.0, 3.0))
    assert (read.sequence, read.forward, read.left, read.camera_yaw) == (7, 1.0, -1.0, 3.0)
    assert (read.jog, read.sprint, read.strafe, read.active, read.takes) == (True, False, False, True, False)
    for bad in ((9.0, 0.0, 0.0), (math.nan, 0.0, 0.0), (0.0, 0.0, math.inf)):
        with pytest.raises(wire.Malformed, match="steer"):
            wire.read_steering(struct.pack("<BBxxI3f", 5, 0, 7, *bad))
    with pytest.raises(wire.Malformed, match="steer"):
        wire.read_steering(bytes(19))


def test_the_codes_tries_are_limited():
    code = PairingCode()
    wrong = "000000" if code.digits != "000000" else "000001"
    for _ in range(PairingCode.TRIES_PER_MINUTE):
        assert "not the code" in code.judge(wrong)
    assert "wait a minute" in code.judge(code.digits)
    fresh = PairingCode()
    assert fresh.judge(f" {fresh.digits}\n") == ""
    for _ in range(PairingCode.TRIES):
        fresh._recent.clear()
        fresh.judge(wrong + "9")
    fresh._recent.clear()
    assert "restart" in fresh.judge(fresh.digits)


# ---- the connection


@contextmanager
def tracked_page(server):
    """A page in VR, as a plain WebSocket client."""
    sync = pytest.importorskip("websockets.sync.client", reason="websockets is not installed (extra [webxr])")
    where = f"localhost:{server.port}"
    address = f"ws://{where}/{server.token}/socket"
    with sync.connect(address, origin=f"http://{where}", compression=None, open_timeout=PATIENCE_S) as page:
        page.send('{"do": "session", "number": 99, "mode": "immersive-vr"}')
        yield page


@pytest.fixture
def server(folder):
    pytest.importorskip("websockets", reason="websockets is not installed (extra [webxr])")
    made = HeadsetServer(free_port())
    made.start()
    yield made
    made.close()


def test_a_pose_is_sent_at_once_and_not_kept_by_the_kernel_until_the_page_answers(server):
    with tracked_page(server):
        page = until_true(lambda: server.tracker, "the page is in VR")
        door = page.socket.transport.get_extra_info("socket")
        assert door.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_each_frame_gets_its_own_pose_also_after_a_pose_without_a_frame(server):
    with tracked_page(server) as page:
        tracker = until_true(lambda: server.tracker, "the page is in VR")
        for number in range(1, 12):
            page.send(frame(sequence=number))
            until_true(lambda n=number: tracker.frame and tracker.frame.sequence == n, "the frame has arrived")
            server.show(pose_message(), number)
            if number == 5:
                server.show(pose_message(), 100)  # not the answer to a frame, for example while the avatar fades in
            assert next_pose(page) == number


def test_a_tracked_page_gets_no_more_poses_than_it_has_sent_frames(server):
    with tracked_page(server) as page:
        tracker = until_true(lambda: server.tracker, "the page is in VR")
        for number in range(1, 5):
            page.send(frame(sequence=number))
        until_true(lambda: tracker.frame and tracker.frame.sequence == 4, "the frames have arrived")
        for number in range(1, 9):
            server.show(pose_message(), number)
        server.tell({"mark": "end"})
        kinds = []
        while isinstance(message := page.recv(timeout=PATIENCE_S), bytes) or "mark" not in message:
            kinds.append(message[0])
        assert kinds.count(wire.POSE) == 2


# ---- certificates

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


def openssl(*words):
    return subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, timeout=PATIENCE_S)


@needs_openssl
def test_certificates_are_private_kept_and_made_again_for_a_new_address(folder, monkeypatch):
    first = certificates.certificates()
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name
    assert openssl("verify", "-CAfile", first.authority, first.leaf).returncode == 0
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(first.leaf, first.key)
    assert {"localhost", "127.0.0.1"} <= certificates.names_of(first.leaf)
    before, authority = first.leaf.read_bytes(), first.authority.read_bytes()
    certificates.certificates()
    assert first.leaf.read_bytes() == before
    monkeypatch.setattr(certificates, "addresses", lambda: ["192.168.7.9"])
    certificates.certificates()
    assert "192.168.7.9" in certificates.names_of(first.leaf)
    assert first.authority.read_bytes() == authority  # devices that trust it need nothing new


@needs_openssl
def test_certificates_are_renewed_before_they_end(folder, monkeypatch):
    monkeypatch.setattr(certificates, "DAYS", 20)
    first = certificates.certificates()
    before = first.authority.read_bytes(), first.leaf.read_bytes()
    monkeypatch.undo()
    monkeypatch.setenv("MM_ROS_HEADSET", str(folder))
    certificates.certificates()
    after = first.authority.read_bytes(), first.leaf.read_bytes()
    assert before[0] != after[0] and before[1] != after[1]


@needs_openssl
@pytest.mark.parametrize("name", ["shop.example", "8.8.8.8"])
def test_the_authority_cannot_sign_for_the_internet(folder, name):
    made = certificates.certificates()
    certificates._make_leaf(folder, ["localhost", name])
    done = openssl("verify", "-CAfile", made.authority, made.leaf)
    assert done.returncode != 0 and "permitted subtree violation" in done.stderr


@needs_openssl
def test_the_leaf_fits_what_browsers_and_apple_ask_for(folder):
    text = openssl("x509", "-in", certificates.certificates().leaf, "-noout", "-text").stdout
    assert "TLS Web Server Authentication" in text and "ecdsa-with-SHA256" in text
    ends = openssl("x509", "-in", folder / "leaf.crt", "-noout", "-checkend", 398 * 86_400)
    assert ends.returncode == 1  # shorter than 398 days


@needs_openssl
def test_forgetting_deletes_keys_certificates_and_token(folder):
    certificates.certificates()
    token = session_token(folder / "token")
    assert session_token(folder / "token") == token
    assert set(certificates.forget()) == set(certificates.FILES)
    assert list(folder.iterdir()) == []
    assert session_token(folder / "token") != token


def test_without_openssl_the_sentence_names_the_package(folder, monkeypatch):
    monkeypatch.setattr(certificates.shutil, "which", lambda _: None)
    with pytest.raises(MmRosError, match="apt install openssl"):
        certificates.certificates()
