"""Access rules for every page that mm_ros serves, and viser's server behind them."""

import http.client
import importlib.metadata
import re
import time
from contextlib import suppress

import pytest
from chromium import free_port
from processes import PATIENCE_S

from mm_ros.base.errors import MmRosError
from mm_ros.web.access import TOKEN_VARIABLE, Access, Bucket, Limits, address, session_token

TOKEN = "t" * 22
PAGE = f"/{TOKEN}/"


def judged(host="127.0.0.1:8080", origin=None, path=PAGE, bound="127.0.0.1"):
    access = Access(bound, TOKEN)
    inside, why = access.admit(path, [host] if host else [], [origin] if origin else [])
    assert bool(inside) != bool(why)
    return inside or next(iter(access.refused))


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "localhost", "[::1]:8080", "LOCALHOST:9000"])
def test_a_page_of_this_machine_is_served(host):
    assert judged(host) == "/"
    assert judged(host, f"http://{host}") == "/"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:8080", "192.168.1.9:8080", "", "a b", "localhost:x", "[::1"]
)
def test_another_host_is_refused(host):
    assert judged(host) == "host"


def test_of_two_hosts_none_counts():
    assert Access("127.0.0.1", TOKEN).admit(PAGE, ["localhost", "localhost"], [])[1]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://127.0.0.1:9999", "null", "file://", "http://localhost:8080"]
)
def test_another_origin_is_refused(origin):
    assert judged(origin=origin) == "origin"


@pytest.mark.parametrize(
    "path", ["/", "", "/wrong/", f"/{TOKEN[:-1]}/", f"/{TOKEN}x/", "/?" + TOKEN, "//" + TOKEN, "/\udcff"]
)
def test_without_the_token_nothing_is_served(path):
    assert judged(path=path) == "token"


def test_the_rest_of_the_path_is_the_servers():
    assert judged(path=f"/{TOKEN}") == "/"
    assert judged(path=f"/{TOKEN}/a/b?c=d") == "/a/b"


def test_an_open_server_takes_addresses_and_its_own_names():
    assert judged("192.168.1.9:8080", bound="0.0.0.0") == "/"
    assert judged("localhost:8080", bound="0.0.0.0") == "/"
    assert judged("evil.example:8080", bound="0.0.0.0") == "host"
    assert judged("robot.lan:8080", bound="robot.lan") == "/"


def test_the_address_is_one_that_a_browser_opens():
    assert address("127.0.0.1", 8080, TOKEN) == f"http://127.0.0.1:8080/{TOKEN}/"
    assert address("0.0.0.0", 8080, TOKEN) == f"http://127.0.0.1:8080/{TOKEN}/"
    assert address("::1", 8080, TOKEN) == f"http://[::1]:8080/{TOKEN}/"


def test_the_token_is_random_unless_it_is_given(monkeypatch):
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert session_token() != session_token()
    assert len(session_token()) >= 22
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    assert Access().token == TOKEN
    monkeypatch.setenv(TOKEN_VARIABLE, "short/..")
    with pytest.raises(MmRosError, match="expected 20 to 100"):
        session_token()


def test_a_bucket_lets_a_burst_through_and_then_the_rate():
    bucket = Bucket(Limits(messages_per_s=1e-6, burst=3))
    assert [bucket.take() for _ in range(5)] == [True, True, True, False, False]


# ---- viser behind the rules


@pytest.fixture
def server():
    pytest.importorskip("viser", reason="viser is not installed (extra [viewer])")
    from mm_ros.show.page.server import serve

    made = serve("127.0.0.1", free_port(), Access(token=TOKEN, limits=Limits(burst=20, messages_per_s=1e-3, clients=2)))
    yield made
    made.stop()


def answer(server, path=PAGE, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.get_port(), timeout=PATIENCE_S)
    try:
        connection.request("GET", path, headers={"Accept-Encoding": "gzip", **headers})
        found = connection.getresponse()
        found.read()
        return found
    finally:
        connection.close()


def page(server, path=PAGE, **options):
    import viser
    from websockets.sync.client import connect

    return connect(
        f"ws://127.0.0.1:{server.get_port()}{path}",
        subprotocols=[f"viser-v{viser.__version__}"], max_size=None, compression=None, **options,
    )  # fmt: skip


def test_the_page_is_served_to_its_address_only(server):
    from mm_ros.show.page.server import access_of, url_of

    assert url_of(server) == f"http://127.0.0.1:{server.get_port()}{PAGE}"
    served = answer(server)
    assert served.status == 200
    assert served.headers["X-Frame-Options"] == "DENY"
    assert answer(server, "/").status == 403
    assert answer(server, Host="evil.example").status == 403
    assert answer(server, Origin="http://evil.example").status == 403
    assert access_of(server).refused == {"token": 1, "host": 1, "origin": 1}


def test_the_websocket_is_refused_as_the_page_is(server):
    from websockets.exceptions import InvalidStatus

    own = f"http://127.0.0.1:{server.get_port()}"
    with page(server, origin=own) as opened:
        assert opened.recv(timeout=PATIENCE_S)
    with page(server, f"/{TOKEN}", origin=own) as opened:
        assert opened.recv(timeout=PATIENCE_S)
    for path, origin in ((PAGE, "http://127.0.0.1:1"), (PAGE, "null"), ("/", own), ("/wrong/", own)):
        with pytest.raises(InvalidStatus, match="403"):
            page(server, path, origin=origin)


def closing_code(opened):
    from websockets.exceptions import ConnectionClosed

    try:
        while True:
            opened.recv(timeout=PATIENCE_S)
    except ConnectionClosed as closed:
        return closed.rcvd.code


def test_what_a_page_may_send_is_limited(server):
    from websockets.exceptions import ConnectionClosed

    with page(server) as flooding:
        with suppress(ConnectionClosed):  # the server may close before the last one is sent
            for _ in range(30):
                flooding.send(b"\xc0")
        assert closing_code(flooding) == 1008
    with page(server) as large:
        large.send(b"x" * 70_000)
        assert closing_code(large) == 1009
    with page(server), page(server), page(server) as third:
        assert closing_code(third) == 1013


def test_a_message_that_our_page_does_not_send_is_not_read(server, monkeypatch):
    import msgspec

    shared, moved = [], []
    monkeypatch.setattr(server, "request_share_url", lambda *_: shared.append(1))
    box = server.gui.add_checkbox("box", False, hint="before")
    box.on_update(lambda _: moved.append(1))
    uuid = box._impl.uuid
    camera = {
        "type": "ViewerCameraMessage", "wxyz": (1.0, 0.0, 0.0, 0.0), "position": (2.5, -2.7, 1.6), "fov": 0.75,
        "near": 0.01, "far": 1000.0, "image_height": 720, "image_width": 1280, "look_at": (0.0, 0.0, 0.9),
        "up_direction": (0.0, 0.0, 1.0),
    }  # fmt: skip
    sent = [
        camera, {"type": "ShareUrlRequest"}, ["a"],
        {"type": "GuiUpdateMessage", "uuid": uuid, "updates": {"hint": "x"}},
        {"type": "FileTransferStartUpload"}, {"type": "GuiUpdateMessage", "uuid": uuid, "updates": {"value": True}},
    ]  # fmt: skip
    with page(server) as opened:
        opened.send("text")
        for message in sent:
            opened.send(msgspec.msgpack.encode(message))
        until = time.monotonic() + PATIENCE_S
        while not box.value and time.monotonic() < until:
            time.sleep(0.01)
    assert (box.value, shared, box.hint) == (True, [], "before")
    with page(server) as broken:
        broken.send(msgspec.msgpack.encode({"type": "ViewerCameraMessage"}))
        assert closing_code(broken) == 1003


def test_viser_is_the_version_that_the_rules_were_tried_with(repository):
    pytest.importorskip("viser", reason="viser is not installed (extra [viewer])")
    pinned = re.search(r'"viser==([\d.]+)"', (repository / "pyproject.toml").read_text())
    assert pinned
    assert importlib.metadata.version("viser") == pinned[1]


def test_a_viser_that_serves_otherwise_is_refused(monkeypatch):
    pytest.importorskip("viser", reason="viser is not installed (extra [viewer])")
    from websockets.asyncio.server import serve as original

    from mm_ros.show.page import server

    monkeypatch.setattr(server._Websockets, "serve", staticmethod(original))
    with pytest.raises(MmRosError, match="access rules do not support"):
        server.serve("127.0.0.1", free_port())
