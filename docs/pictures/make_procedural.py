"""Draws the pictures of docs/procedural-motion.md and prints its table (needs matplotlib and pillow)."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from PIL import Image

mpl.use("Agg")
import matplotlib.pyplot as plt

from mm_ros.body.clip import Clip
from mm_ros.body.shape import bones, capsules
from mm_ros.body.skeleton import HIPS
from mm_ros.motion.procedural import make_clips
from mm_ros.motion.procedural.desired_motion import make_desired_motion
from mm_ros.motion.procedural.footsteps import plan_footsteps
from mm_ros.motion.procedural.recipes import recipes
from mm_ros.motion.procedural.user import SyntheticUser
from mm_ros.show.render import BODY, contact_sheet, follow, render

sys.path.append(str(Path(__file__).parents[2] / "test/motion"))
from gait import gait_figures, knee_angles, on_floor

HERE = Path(__file__).parent
SIDE, FRONT = -np.pi / 2, -0.75


def poses(
    clip: Clip, frames: list[int], bearings: tuple[float, ...], name: str, columns: int, distance: float = 3.7
) -> None:
    p, q = (a.astype(float) for a in clip.globals())
    shape = bones(clip.skeleton)
    pictures = []
    for bearing in bearings:
        for i in frames:
            body = capsules(shape, p[i], q[i])
            camera = follow(*p[i, HIPS, :2], distance, bearing, 1.2)
            pictures.append(render(body, np.tile(BODY, (len(body), 1)), camera, 150, 260, 3))
    sheet = Image.fromarray(contact_sheet(pictures, columns))
    sheet.quantize(96).save(HERE / name, optimize=True)


def walk_cycle(clip: Clip) -> None:
    p, q = (a.astype(float) for a in clip.globals())
    strikes = np.flatnonzero(np.diff(on_floor(p, q)[:, 1].astype(int)) == 1) + 1
    a, b = [s for s in strikes if s > 150][:2]
    poses(clip, [int(x) for x in np.linspace(a, b, 9)[:8]], (SIDE,), "procedural-walk-cycle.png", 8)

    share = np.linspace(0, 100, b - a)
    figure, axes = plt.subplots(1, 2, figsize=(9, 2.8))
    winter = np.array([0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 100])
    knee = [4, 10, 16, 19, 17, 13, 9, 6, 5, 7, 12, 21, 36, 52, 62, 64, 56, 39, 20, 6, 4]
    axes[0].plot(share, knee_angles(clip)[a:b, 1], label="procedural, 1.3 m/s")
    axes[0].plot(winter, knee, "--", label="typical of adults (after Winter)")
    axes[0].set(xlabel="% of the stride from heel strike", ylabel="knee flexion, °")
    axes[0].legend(fontsize=8)
    axes[1].plot(share, 100 * (p[a:b, HIPS, 2] - p[a:b, HIPS, 2].mean()), label="up")
    lateral = p[a:b, HIPS, 1] - np.linspace(p[a, HIPS, 1], p[b, HIPS, 1], b - a)
    axes[1].plot(share, 100 * (lateral - lateral.mean()), label="lateral")
    axes[1].set(xlabel="% of the stride from heel strike", ylabel="pelvis, cm")
    axes[1].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(HERE / "procedural-curves.png", dpi=80)


def from_above(name: str) -> None:
    recipe = next(r for r in recipes() if r.name == name)
    clip = {c.name: c for c in make_clips(0)}[name]
    steps = plan_footsteps(make_desired_motion(list(recipe.legs), 0.18), np.random.default_rng(0))
    p = clip.globals()[0]
    figure, ax = plt.subplots(figsize=(6, 4.4))
    for step in steps:
        toe = step.position + 0.2 * np.array([np.cos(step.yaw), np.sin(step.yaw)])
        heel = step.position - 0.055 * np.array([np.cos(step.yaw), np.sin(step.yaw)])
        ax.plot(
            *np.stack([heel, toe]).T,
            lw=7,
            color="#c44" if step.foot == 0 else "#339",
            alpha=0.6,
            solid_capstyle="round",
        )
    ax.plot(p[:, HIPS, 0], p[:, HIPS, 1], color="#444", lw=1.2, label="pelvis")
    ax.plot(p[:, 0, 0], p[:, 0, 1], color="#2a2", lw=1, ls="--", label="virtual root")
    ax.set_aspect("equal")
    ax.set(xlabel="x, m", ylabel="y, m")
    ax.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(HERE / "procedural-from-above.png", dpi=80)


def gait_table(clips: dict[str, Clip]) -> None:
    head = "clip|speed|step length|cadence|walk ratio|double support|flight|bob|sway|knee swing|knee least|arm–leg"
    print(f"|{head}|\n|" + "---|" * 12)
    for name in ("walk 0.7", "walk 1", "walk 1.3", "walk 1.55", "walk 1.8", "run 2.5", "run 3", "run 3.5"):
        clip = clips[name]
        first, stop = (90, len(clip) - 110) if name.startswith("walk") else (130, 260)
        f = gait_figures(clip, first, stop)
        print(
            f"| {name} | {f.speed:.2f} m/s | {f.step_length:.2f} m | {f.cadence:.2f} /s | {f.walk_ratio:.3f} m/Hz "
            f"| {100 * f.double_support:.0f} % | {100 * f.flight:.0f} % | {100 * f.bob:.1f} cm | {100 * f.sway:.1f} cm "
            f"| {f.knee_swing_deg:.0f}° | {f.knee_least_deg:.0f}° | {f.arm_leg:.2f} |"
        )


def main() -> None:
    clips = {c.name: c for c in make_clips(0)}
    gait_table(clips)
    walk_cycle(clips["walk 1.3"])
    from_above("curve 1 0.8")
    user = SyntheticUser(3).clip(300)
    wanted = ("walk", "reach", "reach low", "crouch", "point", "wave", "hold", "tiptoe")
    frames = []
    for kind in wanted:
        first, stop = next((a, b) for name, a, b in user.tags if name == kind)
        frames.append(first + int((0.45 if kind != "wave" else 0.4) * (stop - first)))
    poses(user, frames, (FRONT,), "synthetic-user.png", 8, 4.0)


if __name__ == "__main__":
    main()
