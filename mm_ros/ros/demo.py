"""Observes the running graph of `mm_ros demo`: prints status lines, and a summary and a film at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

from mm_ros.base import ending
from mm_ros.ros.observer import Observer
from mm_ros.ros.scripted import steer
from mm_ros.show.film import BODY, GHOST, Actor, film
from mm_ros.show.render import contact_sheet, write_gif, write_png

STATUS_S = 0.5
RATE_OVER_S = 2.0


class Demo:
    def __init__(self, avatar: str, film_rate: float, film_s: float) -> None:
        self._avatar, self._film_rate, self._film_s = avatar, film_rate, film_s

    def __enter__(self) -> Demo:
        rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
        self._observer = Observer(self._avatar, self._film_rate, self._film_s)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._observer)
        return self

    def __exit__(self, *_: Any) -> None:
        self._observer.destroy_node()
        rclpy.try_shutdown()

    def steer(self, control: str, seed: int) -> None:
        """Publish scripted input for the kind of control `control` while no other node publishes such input."""
        steer(self._observer, control, seed)

    @property
    def _seen(self) -> Any:
        return self._observer.seen

    def wait_for_pose(self, seconds: float, ended: Callable[[], str]) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._seen.received_s and not ended():
            self._executor.spin_once(0.1)
            if ending.asked():
                raise KeyboardInterrupt
        return bool(self._seen.received_s)

    def watch(self, seconds: float, ended: Callable[[], str]) -> None:
        """Print status lines for `seconds` seconds (0: no limit), until Ctrl-C, or until `ended()` returns a reason."""
        until = time.monotonic() + seconds if seconds else float("inf")
        due = 0.0
        try:
            # `ending.asked()` also notices a Ctrl-C whose KeyboardInterrupt was lost in rclpy.
            while time.monotonic() < until and not ended() and not ending.asked():
                self._executor.spin_once(0.1)
                if time.monotonic() >= due:
                    due = time.monotonic() + STATUS_S
                    self._status()
        except KeyboardInterrupt:
            pass
        except RuntimeError:
            if not ending.asked():
                raise
        print()

    def _status(self) -> None:
        now, seen = time.monotonic(), self._seen
        n = sum(1 for t in reversed(seen.received_s[-400:]) if now - t < RATE_OVER_S)
        span = min(RATE_OVER_S, max(now - seen.received_s[0], 0.5)) if seen.received_s else RATE_OVER_S
        late = np.percentile(seen.latencies_s[-500:], 99) * 1e3 if seen.latencies_s else np.nan
        facing, root = (_mean(v[-200:]) for v in (seen.facing_errors, seen.root_errors))
        line = f"{n / span:5.1f} Hz   latency p99 {late:5.1f} ms"
        if facing is not None and root is not None:
            line += f"   facing error {np.degrees(facing):4.1f}°   root error {root * 100:4.1f} cm"
        end = "\r" if sys.stdout.isatty() else "\n"
        print(f"  {line}", end=end, flush=True)

    def summary(self) -> dict[str, Any]:
        seen = self._seen
        seconds = seen.received_s[-1] - seen.received_s[0] if len(seen.received_s) > 1 else 0.0
        late = np.array(seen.latencies_s or [np.nan]) * 1e3
        facing, root = _mean(seen.facing_errors), _mean(seen.root_errors)
        return {
            "seconds": round(seconds, 2),
            "poses": len(seen.received_s),
            "rate_hz": (len(seen.received_s) - 1) / seconds if seconds else None,
            "latency_p50_ms": float(np.percentile(late, 50)),
            "latency_p99_ms": float(np.percentile(late, 99)),
            "facing_error_deg": None if facing is None else float(np.degrees(facing)),
            "root_error_m": root,
        }

    def write_film(self, output: Path) -> dict[str, str]:
        """Write a film and a picture (OUTPUT.gif, OUTPUT.png) of the avatar and, if it is known, of the true body."""
        if not self._seen.film or "pose" not in self._observer.skeletons:
            print("no film was written: the demo ended before the first pose")
            return {}
        poses, truths = zip(*((p.pose, p.truth) for p in self._seen.film), strict=True)
        actors = [Actor(self._observer.skeletons["pose"], poses, BODY)]
        if any(t is not None for t in truths) and "truth" in self._observer.skeletons:
            actors.append(Actor(self._observer.skeletons["truth"], truths, GHOST))
        print(f"writing the film: {len(poses)} pictures …", flush=True)
        pictures = film(actors)
        gif, png = output.with_suffix(".gif"), output.with_suffix(".png")
        write_gif(gif, pictures, self._film_rate)
        chosen = np.linspace(0, len(pictures) - 1, min(8, len(pictures))).astype(int)
        write_png(png, contact_sheet([pictures[i] for i in chosen], 4))
        print(f"film: {gif}   picture: {png}")
        return {"film": str(gif), "picture": str(png)}

    def write_robot_film(self, output: Path, robot: str) -> dict[str, str]:
        """Write a film (OUTPUT_robot.gif) of the avatar and of the robot that follows the avatar."""
        from mm_ros.robot.figure import read_figure
        from mm_ros.robot.follow import Follower
        from mm_ros.show.robot import write_film

        poses = [picture.pose for picture in self._seen.film]
        if not poses or "pose" not in self._observer.skeletons:
            return {}
        figure, skeleton = read_figure(robot), self._observer.skeletons["pose"]
        follower = Follower(figure, skeleton)
        path = output.with_name(f"{output.stem}_robot.gif")
        write_film(path, figure, skeleton, poses, [follower.step(pose) for pose in poses], rate=self._film_rate)
        print(f"film of the robot: {path}")
        return {"robot_film": str(path)}


def _mean(values: list[float]) -> float | None:
    known = [v for v in values if np.isfinite(v)]
    return float(np.mean(known)) if known else None
