"""Diagnostic report of a node, which is published once a second on the topic /diagnostics."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

OK, WARN, ERROR, STALE = (bytes([i]) for i in range(4))
REPORT_NS = 1_000_000_000
# A diagnostic report is sent when the nodes are idle, that is, when 70 % of the time between two poses has passed. If a
# node publishes at less than CALM_RATE [Hz], its diagnostic reports do not wait for an idle time.
CALM, CALM_RATE = 0.7, 20.0
LATENCY_WARN_S, LATENCY_ERROR_S = 0.05, 0.5
OTHER_CLOCK_S = 10.0  # A time stamp that differs from the present by more than this time [s] is from another clock.


@dataclass
class Health:
    """Counters and warnings of a node for its diagnostic report, which is published about once per second. Entries in
    `warnings`, `passing` or `errors` raise the level of the diagnostic report to WARN or ERROR."""

    node: Node
    expects_input: bool = True
    ready: bool = False
    done: int = 0
    dropped: int = 0
    unpaired: int = 0
    refused: int = 0
    latencies_s: list[float] = field(default_factory=list)
    # age [s] of the newest time stamp, if this stamp comes from another clock than that of the node
    other_clock_s: float | None = None
    values: dict[str, str] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)
    passing: dict[str, str] = field(default_factory=dict)  # warnings that appear in one diagnostic report only
    errors: dict[str, str] = field(default_factory=dict)
    watch: Callable[[], None] | None = None  # function that updates `values` before each diagnostic report
    _last_ns: int = 0
    _stamp_ns: int = 0  # time stamp of the node's last published message [ns]
    _rate: float = 0.0
    _totals: dict[str, int] = field(default_factory=dict)

    def step(self, stamp_ns: int, late_s: float | None = None) -> None:
        """Count one published message and store its latency `late_s` [s]; by default, the latency is the present time
        minus the time stamp."""
        self.done += 1
        self._stamp_ns = stamp_ns
        now_s = (self.node.now_ns() - stamp_ns) * 1e-9
        late_s = now_s if late_s is None else late_s
        if abs(late_s) > OTHER_CLOCK_S:
            self.other_clock_s = late_s
        else:
            self.latencies_s.append(late_s)

    def refuse(self, reason: str) -> None:
        self.refused += 1
        self.errors["refused"] = reason
        self.node.get_logger().warning(reason, throttle_duration_sec=2.0)

    def report(self) -> DiagnosticArray:
        if self.watch is not None:
            self.watch()
        now_ns = self.node.now_ns()
        seconds = max((now_ns - self._last_ns) * 1e-9, 1e-3) if self._last_ns else 1.0
        self._last_ns = now_ns
        self._rate = self.done / seconds
        status = self._status(seconds)
        out = DiagnosticArray(status=[status])
        out.header.stamp = self.node.get_clock().now().to_msg()
        self._clear()
        return out

    def first_report_ns(self) -> int:
        """Return the time until the node's first diagnostic report [ns], between 0.5 and 1.5 s. The time depends on a
        hash of the node's name, so that different nodes report at different times."""
        share = zlib.crc32(self.node.get_fully_qualified_name().encode()) / 2**32
        return round((0.5 + share) * REPORT_NS)

    def next_report_ns(self) -> int:
        """Return the time until the node's next diagnostic report [ns], about 1 s. At the time of the report, the nodes
        are idle between two poses, so that the report delays no pose."""
        if self._rate < CALM_RATE:
            return REPORT_NS
        period = 1e9 / self._rate
        phase = (self.node.now_ns() - self._stamp_ns) / period
        return REPORT_NS + round(((CALM - phase + 0.5) % 1.0 - 0.5) * period)

    def _status(self, seconds: float) -> DiagnosticStatus:
        late = sorted(self.latencies_s or [0.0])
        p50, p99 = (late[round(q * (len(late) - 1))] for q in (0.5, 0.99))
        shown = {
            "rate_hz": f"{self.done / seconds:.1f}",
            **{f"latency_{name}_ms": self._latency(v) for name, v in (("p50", p50), ("p99", p99), ("max", late[-1]))},
            **{k: str(self._total(k)) for k in ("dropped", "unpaired", "refused")},
            **self.values,
        }
        level, message = self._level(p99)
        return DiagnosticStatus(
            level=level,
            name=self.node.get_fully_qualified_name().lstrip("/"),
            hardware_id=self.node.get_namespace().strip("/"),
            message=message,
            values=[KeyValue(key=k, value=v) for k, v in shown.items()],
        )

    def _latency(self, seconds: float) -> str:
        return f"{seconds * 1e3:.2f}" if self.latencies_s or self.other_clock_s is None else "unknown"

    def _level(self, p99_s: float) -> tuple[bytes, str]:
        if not self.ready:
            return WARN, "starting: loading models and kernels"
        errors = list(self.errors.values())
        if p99_s > LATENCY_ERROR_S:
            errors.append(f"latency p99 {p99_s * 1e3:.0f} ms")
        if errors:
            return ERROR, "; ".join(errors)
        warnings = [*self.warnings.values(), *self.passing.values()]
        if self.done == 0 and self.expects_input:
            warnings.append("no input")
        if self.other_clock_s is not None:
            warnings.append(
                f"stamps are from a recording, {self.other_clock_s:.0f} s old: use `mm_ros replay`, or "
                "`ros2 bag play --clock` with use_sim_time on all nodes"
            )
        if p99_s > LATENCY_WARN_S:
            warnings.append(f"latency p99 {p99_s * 1e3:.0f} ms")
        return (WARN, "; ".join(warnings)) if warnings else (OK, "running")

    def _total(self, name: str) -> int:
        self._totals[name] = self._totals.get(name, 0) + int(getattr(self, name))
        return self._totals[name]

    def _clear(self) -> None:
        self.done = self.dropped = self.unpaired = self.refused = 0
        self.latencies_s.clear()
        self.other_clock_s = None
        self.errors.clear()
        self.passing.clear()
