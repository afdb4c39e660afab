"""Benchmark of the headset page in a real Chromium with a simulated headset, and of the graph behind the page.

Times in the page can be compared with times in Python, because Chromium's debug protocol reports the start of the page
(`NavigationStart`) in CLOCK_MONOTONIC, and `performance.now()` is 0 at the start of the page.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
import rclpy.executors

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.ros import graph
from mm_ros.ros.bench.graph import cpu_s, family
from mm_ros.ros.bench.hour import anonymous_mb
from mm_ros.ros.conversions import stamp_from_ros
from mm_ros.ros.qos import listener_qos, message_class
from mm_ros.web.access import CODE_VARIABLE, TOKEN_VARIABLE, address, new_token

START_S, SETTLE_S, MINUTES_S = 240.0, 6.0, 120.0
ECHO_BYTES = 688  # size [bytes] of the messages of the echo server, equal to that of a pose message
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-timer-throttling", "--no-first-run"]

Samples = list[tuple[float, float]]  # time [s], value

# The JavaScript function SIMULATED simulates a headset in the headset page. A web worker triggers the frames of the
# simulated headset, because timers and animation frames of a browser window are too slow. SIMULATED also sends each
# frame of the simulated headset to the echo server of the benchmark.
SIMULATED = """async ([hz, echoPort, echoBytes, most]) => {
  const P = mmRosPage, r = P.room.renderer, space = new EventTarget(), session = new EventTarget();
  r.setAnimationLoop(null); r.render = () => {};
  r.xr.setSession = async () => {}; r.xr.getReferenceSpace = () => space;
  const hand = (handedness) => ({handedness, targetRayMode: 'tracked-pointer', gripSpace: handedness});
  Object.assign(session, {visibilityState: 'visible', inputSources: [hand('left'), hand('right')]});
  Object.defineProperty(navigator, 'xr', {value: {requestSession: async () => session}});
  const at = (x, y, z) => ({emulatedPosition: false,
    transform: {position: {x, y, z}, orientation: {x: 0, y: 0, z: 0, w: 1}}});
  // Arrays of a fixed length, so that the log itself does not let the page's memory grow.
  const log = window.__bench = {sent: 0, echoed: 0, on: false};
  for (const name of ['times', 'logic', 'echo']) log[name] = new Float64Array(most);
  await P.enter('immersive-vr');
  const echo = new WebSocket(`ws://127.0.0.1:${echoPort}`), asked = new Map();
  echo.binaryType = 'arraybuffer';
  await new Promise((done) => (echo.onopen = done));
  echo.onmessage = (e) => { const id = new DataView(e.data).getUint32(4, true), t = asked.get(id);
    asked.delete(id); if (log.on && t && log.echoed < most) log.echo[log.echoed++] = performance.now() - t; };
  const send = P.link.send.bind(P.link);
  P.link.send = (bytes) => { const ok = send(bytes);
    if (ok && bytes[0] === 1) { const v = new DataView(bytes.buffer);
      if (log.on && log.sent < most) {
        log.times[log.sent] = v.getFloat64(8, true); log.logic[log.sent++] = v.getFloat32(20, true); }
      asked.set(v.getUint32(4, true), performance.now()); echo.send(bytes.slice()); }
    return ok; };
  const frame = (t) => ({ getViewerPose: () => at(0.05 * Math.sin(t), 1.6 + 0.01 * Math.sin(3 * t), 0.05 * Math.cos(t)),
    getPose: (s) => s === 'left' ? at(-0.3, 1.1 + 0.05 * Math.sin(2 * t), -0.3)
      : s === 'right' ? at(0.3, 1.1 - 0.05 * Math.sin(2 * t), -0.3) : null });
  const ticks = `let n = 0; const t0 = performance.now(); const next = () => { n += 1;
    postMessage(performance.timeOrigin + performance.now());
    setTimeout(next, Math.max(0, t0 + n * 1000 / ${hz} - performance.now())); }; next();`;
  const worker = new Worker(URL.createObjectURL(new Blob([ticks])));
  worker.onmessage = (e) => { const now = performance.now();
    if (performance.timeOrigin + now - e.data > 900 / hz) return;
    P._frame(now, frame(now / 1000)); };
}"""

SEEN = """({...__bench, times: Array.from(__bench.times.slice(0, __bench.sent)),
  logic: Array.from(__bench.logic.slice(0, __bench.sent)), echo: Array.from(__bench.echo.slice(0, __bench.echoed)),
  back: mmRosPage.back.slice(0, __bench.sent), lost: mmRosPage.status.session.missed})"""
BEGIN = "mmRosPage.back.length = 0; __bench.missed = mmRosPage.status.session.missed; __bench.on = true"


def run_bench(
    processes: Any, port: int, rate: float, seconds: float, database: Path | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """Run the benchmark of the headset page for `seconds` seconds and return the measured values. The object
    `processes` starts the processes of the graph, and `port` is the network port of the page."""
    sync_playwright, chromium = browser()
    url = own_address(port)
    words = ["up", "--trackers", "webxr", "-p", f"tracker_bridge.headset_port={port}"]
    words += ["-p", "tracker_bridge.auto_calibrate=false"]
    words += ["--database", str(database)] if database else []
    with processes, _Echo() as echo, _Stamps() as stamps:
        processes.start(*words)
        await_page(url, processes.check)
        with sync_playwright() as p:
            started = p.chromium.launch(executable_path=chromium, headless=True, args=FLAGS)
            try:
                page = started.new_context(bypass_csp=True, viewport={"width": 200, "height": 150}).new_page()
                page.goto(url)
                debug = page.context.new_cdp_session(page)
                debug.send("Performance.enable")
                page.evaluate(SIMULATED, [rate, echo.port, ECHO_BYTES, round(1.5 * rate * seconds) + 1000])
                _await_poses(page, processes.check)
                page.wait_for_timeout(SETTLE_S * 1000)
                say(f"measuring for {seconds:g} s at {rate:g} Hz …")
                page.evaluate(BEGIN)
                stamps.on = True
                pids = family(processes.pids()[0])
                used_s = -cpu_s(pids)
                memory, heap = _measure(page, debug, seconds, pids)
                used_s += cpu_s(pids)
                stamps.on = False
                page.evaluate("__bench.on = false")
                page.wait_for_timeout(1000)
                seen = page.evaluate(SEEN)
                metrics = {m["name"]: m["value"] for m in debug.send("Performance.getMetrics")["metrics"]}
            finally:
                started.close()
    errors = _stamp_errors(stamps, np.array(seen["times"]), metrics["NavigationStart"])
    return {
        "rate": rate, "seconds": seconds, "cpus": os.cpu_count(),
        "sample_to_pose_ms": figures(seen["back"]), "echo_ms": figures(seen["echo"]),
        "stamp_error_ms": figures(np.abs(errors)),
        "stamp_error_mean_ms": float(np.mean(errors)) if len(errors) else None,
        "page_logic_ms": figures(seen["logic"]),
        "sent": seen["sent"], "published": len(stamps.ns), "poses_back": len(seen["back"]),
        "missed": seen["lost"] - seen["missed"], "memory_mb": memory, "graph_cpu_percent": 100.0 * used_s / seconds,
        "memory_by_minute_mb": by_minute(memory), "growth_mb": growth(memory),
        "page_heap_by_minute_mb": by_minute(heap), "page_heap_growth_mb": growth(heap),
    }  # fmt: skip


def browser() -> tuple[Any, str]:
    """Return the function that starts playwright and the path of Chromium; raise MmRosError if one of them is missing.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise MmRosError(f"a measurement in Chromium needs playwright: {setup_command('test')}") from None
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise MmRosError("a measurement in Chromium needs it: sudo apt install chromium")
    return sync_playwright, chromium


def own_address(port: int) -> str:
    """Choose a DDS domain and a secret token for the graph to start, and return the address of the graph's page."""
    os.environ.setdefault("ROS_DOMAIN_ID", str(20 + os.getpid() % 80))
    token = new_token()
    # The pairing code in the environment keeps the graph from printing the address of its page.
    os.environ[TOKEN_VARIABLE], os.environ[CODE_VARIABLE] = token, "000000"
    return address("localhost", port, token)


def _measure(page: Any, debug: Any, seconds: float, pids: list[int]) -> tuple[Samples, Samples]:
    began, memory, heap = time.monotonic(), Samples(), Samples()
    while (t := time.monotonic() - began) < seconds:
        memory.append((round(t, 1), round(anonymous_mb(pids), 2)))
        if t >= 60.0 * len(heap):
            heap.append((round(t, 1), _heap_mb(debug)))
        page.wait_for_timeout(min(5.0, seconds - t) * 1000 + 1)
    heap.append((round(t, 1), _heap_mb(debug)))
    return memory, heap


def _heap_mb(debug: Any) -> float:
    debug.send("HeapProfiler.collectGarbage")
    return round(float(debug.send("Runtime.getHeapUsage")["usedSize"]) / 1e6, 2)


def by_minute(samples: Samples) -> list[float]:
    """Return the median of the page's memory [MB] in each minute of the run."""
    minutes = [[mb for t, mb in samples if t // 60.0 == minute] for minute in range(int(samples[-1][0] // 60.0) + 1)]
    return [round(float(np.median(values)), 2) for values in minutes if values]


def growth(samples: Samples) -> float | None:
    """Return the growth of the memory [MB], that is, the median of the last minute minus the median of the third
    minute. For runs shorter than three minutes, return None."""
    end = samples[-1][0]
    late = [mb for t, mb in samples if t > end - 60.0]
    early = [mb for t, mb in samples if MINUTES_S <= t < MINUTES_S + 60.0]
    return float(np.median(late) - np.median(early)) if early and end > MINUTES_S + 60.0 else None


def _stamp_errors(stamps: _Stamps, times_ms: Any, navigation_s: float) -> Any:
    """Return for each published tracker sample its stamp minus the time of the nearest frame of the headset [ms]."""
    published = (np.array(stamps.ns, np.int64) - stamps.shift_ns) / 1e6 - navigation_s * 1e3
    if not len(published) or not len(times_ms):
        return np.zeros(0)
    k = np.clip(np.searchsorted(times_ms, published), 1, len(times_ms) - 1)
    nearer = np.where(np.abs(published - times_ms[k - 1]) < np.abs(published - times_ms[k]), k - 1, k)
    inside = (published > times_ms[0]) & (published < times_ms[-1])
    return (published - times_ms[nearer])[inside]


def figures(values: Any) -> dict[str, float]:
    if not len(values):
        return {}
    p50, p90, p99 = np.percentile(values, [50, 90, 99])
    return {"p50": float(p50), "p90": float(p90), "p99": float(p99), "max": float(np.max(values))}


def await_page(url: str, ended: Callable[[], str]) -> None:
    until = time.monotonic() + START_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except OSError:
            if ended() or time.monotonic() > until:
                raise MmRosError("the graph did not start; see its messages above") from None
            time.sleep(0.2)


def _await_poses(page: Any, ended: Callable[[], str]) -> None:
    until = time.monotonic() + START_S
    while not page.evaluate("mmRosPage.back.length > 50"):
        if ended() or time.monotonic() > until:
            raise MmRosError("no pose came back to the page; see the messages above")
        page.wait_for_timeout(200)


class _Stamps:
    def __enter__(self) -> _Stamps:
        self.ns: list[int] = []
        self.on = False
        # Of 100 measured differences between system clock and CLOCK_MONOTONIC, the smallest is used, because an
        # interruption between the readings of the two clocks makes a difference too large.
        self.shift_ns = min(-time.clock_gettime_ns(time.CLOCK_MONOTONIC) + time.time_ns() for _ in range(100))
        self._context = rclpy.Context()
        rclpy.init(context=self._context)
        self._node = rclpy.create_node("bench_webxr", namespace="avatar", context=self._context)
        topic = graph.TOPICS["trackers"]
        self._node.create_subscription(message_class(topic.type), topic.name, self._take, listener_qos(topic.qos))
        self._executor = rclpy.executors.SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()
        return self

    def _take(self, msg: Any) -> None:
        if self.on:
            self.ns.append(stamp_from_ros(msg.header.stamp))

    def _spin(self) -> None:
        while not self._stopped.is_set():
            self._executor.spin_once(timeout_sec=0.2)

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(10)
        self._executor.shutdown()
        self._node.destroy_node()
        rclpy.try_shutdown(context=self._context)


class _Echo:
    """WebSocket server that answers each frame of the headset with a message as long as a pose, which begins with the
    first eight bytes of the frame."""

    def __enter__(self) -> _Echo:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        self._ready.wait(10)
        return self

    async def _serve(self) -> None:
        from websockets.asyncio.server import serve

        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()

        async def echo(connection: Any) -> None:
            async for message in connection:
                await connection.send(message[:8] + bytes(ECHO_BYTES - 8))

        async with serve(echo, "127.0.0.1", 0, compression=None, close_timeout=1) as server:
            self.port = server.sockets[0].getsockname()[1]
            self._ready.set()
            await self._stop.wait()

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
