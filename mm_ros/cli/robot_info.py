"""`mm_ros robot info`: print the joints, roles, limbs and soles that a robot file contains."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mm_ros.base.errors import MmRosError
from mm_ros.base.text import printable
from mm_ros.cli.arguments import output_file
from mm_ros.cli.output import add_json, table, write_json

if TYPE_CHECKING:
    from mm_ros.robot.figure import Figure

HELP = "show what mm_ros finds in a robot file: joints and their roles, facing, soles, and what is missing"

EPILOG = """exit codes: 0 complete, 1 a limb is missing, 2 unreadable, 3 not a humanoid
examples:
  mm_ros robot info g1.urdf
  mm_ros robot info robot.xml --picture robot.png   the robot beside the avatar, both in T-pose
  mm_ros robot info robot.urdf --overrides mine.yaml"""

COMPLETE, LIMB_MISSING, UNREADABLE, NOT_HUMANOID = range(4)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("file", type=Path, metavar="FILE", help="URDF, xacro or MJCF file")
    parser.add_argument(
        "--overrides",
        type=Path,
        metavar="YAML",
        help="robot.yaml (default: robot.yaml in the folder of the robot file, if there is one)",
    )
    parser.add_argument("--picture", type=output_file, help="also write a PNG: the robot beside the avatar")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from mm_ros.robot.figure import read_figure
    from mm_ros.robot.roles import NotHumanoidError

    code, reason = COMPLETE, ""
    try:
        figure = read_figure(args.file, args.overrides)
    except NotHumanoidError as error:
        code, reason = NOT_HUMANOID, str(error)
    except MmRosError as error:
        code, reason = UNREADABLE, str(error)
    if reason:
        print(f"mm_ros: {printable(reason)}", file=sys.stderr)
        write_json(args.json, {"file": str(args.file), "exit_code": code, "reason": reason})
        return code
    result = _described(figure)
    _print(figure, result)
    if figure.roles.missing:
        code = LIMB_MISSING
        result["reason"] = f"incomplete: {' and '.join(figure.roles.missing)} not found; the other limbs follow"
    else:
        result["reason"] = "complete: two legs and two arms were found"
    if args.picture:
        from mm_ros.show.robot import write_t_pose_picture

        write_t_pose_picture(figure, args.picture)
        print(f"picture: {args.picture}")
    print(result["reason"])
    write_json(args.json, {"file": str(args.file), "exit_code": code, **result})
    return code


def _described(figure: Figure) -> dict[str, Any]:
    robot, roles = figure.robot, figure.roles
    return {
        "robot": robot.name,
        "base": robot.base,
        "pelvis": roles.pelvis,
        "chest": roles.chest,
        "head": roles.head,
        "facing_deg": round(math.degrees(roles.facing), 1) + 0.0,
        "chains": {k: list(v) for k, v in roles.chains.items()},
        "confidence": roles.confidence,
        "missing": list(roles.missing),
        "unmapped": roles.unmapped,
        "warnings": list(roles.warnings),
        "notes": list(robot.notes),
        "overrides": figure.overrides,
        "leg_length": figure.leg_length if figure.soles else None,
        "soles": {
            side: {"height": s.height, "length": s.length, "source": s.source} for side, s in figure.soles.items()
        },
    }


def _print(figure: Figure, result: dict[str, Any]) -> None:
    from mm_ros.robot.roles import WORDS

    robot, roles = figure.robot, figure.roles
    rows = []
    for part, chain in roles.chains.items():
        side, _, rest = part.partition("_")
        word = f"{side} {WORDS[rest]}" if side in ("left", "right") else WORDS.get(part, part)
        for i, name in enumerate(chain):
            j = robot.joint(name)
            limits = "none" if j.kind == "continuous" else f"{math.degrees(j.lower):.0f} … {math.degrees(j.upper):.0f}"
            mark = f"mimics {j.mimic.joint}" if j.mimic else ""
            rows.append((word if i == 0 else "", printable(name), limits, f"{roles.confidence.get(name, 1):.1f}", mark))
    print(f"robot {printable(robot.name)}: {len(robot.joints) + 1} links, {len(robot.moving)} free joints")
    print(table(("part", "joint", "limits [deg]", "confidence", ""), rows))
    places = [f"{k} {printable(result[k]) or '–'}" for k in ("base", "pelvis", "chest", "head")]
    print(f"links: {', '.join(places)}; faces {result['facing_deg']:.1f}° from +x of the base")
    if figure.soles:
        soles = [f"{side} {1e3 * s.height:.0f} mm below the ankle ({s.source})" for side, s in figure.soles.items()]
        print(f"legs {figure.leg_length:.3f} m; soles: {', '.join(soles)}")
    if figure.overrides:
        print(f"stated by {figure.overrides}")
    if roles.unmapped:
        names = [printable(n) for n in roles.unmapped]
        print(f"do not follow ({len(names)}): {', '.join(names[:8])}{' …' if len(names) > 8 else ''}")
    for text in (*robot.notes, *roles.warnings):
        print(f"warning: {printable(text)}")
