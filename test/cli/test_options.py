"""Options of all commands: one name has one meaning, unit and range; angles are degrees; invalid values are refused."""

import argparse
import math
import re
from collections import defaultdict
from pathlib import Path

import pytest

from mm_ros.base.errors import MmRosError
from mm_ros.cli import main as cli
from mm_ros.cli.arguments import NUMBERS, Number
from mm_ros.cli.main import main
from mm_ros.sessions.bag import BagMessage
from mm_ros.sessions.player import Player

VERBS = [(verb, *([sub] if sub else [])) for verb, subs in cli.available().items() for sub in (subs or ("",))]
UNITS = {"S", "MIN", "HZ", "M", "DEG", "N", "FACTOR", "SHARE", "PER_MIN"}
WRITTEN_BY_KIND = {"-o", "--output"}  # a file or a folder, depending on the command


def actions(words: tuple[str, ...]) -> list[argparse.Action]:
    parser, _ = cli.verb_parser(*words)
    return [a for a in parser._actions if a.option_strings and not isinstance(a, argparse._HelpAction)]


def by_option() -> dict[str, list[tuple[str, argparse.Action]]]:
    found = defaultdict(list)
    for words in VERBS:
        for action in actions(words):
            for name in action.option_strings:
                found[name].append((" ".join(words), action))
    return found


def meaning(action: argparse.Action) -> tuple[object, ...]:
    """Properties that must not differ: switch or value, type and range, unit, choices."""
    kind = action.type if action.option_strings[-1] not in WRITTEN_BY_KIND else "path"
    return type(action).__name__, kind, action.metavar, tuple(action.choices or ())


def test_the_same_option_means_the_same_in_every_command():
    differing = {
        name: sorted({f"{command}: {meaning(action)}" for command, action in rows})
        for name, rows in by_option().items()
        if len({meaning(action) for _, action in rows}) > 1
    }
    assert not differing


def test_every_number_has_a_range_and_a_unit_and_says_it_in_its_help():
    for name, rows in by_option().items():
        for command, action in rows:
            assert action.type not in (int, float), f"{command} {name}: a number without a range"
            if isinstance(action.type, Number):
                assert action.type is NUMBERS[name], f"{command} {name}"
                assert action.type.unit in UNITS
                assert action.nargs == 3 or action.metavar == action.type.unit, f"{command} {name}"
            for word in ("rad", "radians"):
                assert word not in (action.help or "").replace("times as many radians", "").split(), f"{command} {name}"


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_values_beyond_their_range_are_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    parser, _ = cli.verb_parser(*words)
    for action in actions(words):
        if not isinstance(action.type, Number):
            continue
        kind, count = action.type, action.nargs if isinstance(action.nargs, int) else 1
        for value in (kind.low - 1, kind.high * 2 + 1, math.nan, math.inf, "many", "1.5" if kind.whole else ""):
            name = action.option_strings[0]
            given = [f"{name}={value}"] if count == 1 else [name, *[str(value)] * count]
            with pytest.raises(SystemExit):
                parser.parse_args(given)
            assert f"argument {'/'.join(action.option_strings)}: expected a" in capsys.readouterr().err


def test_an_abbreviation_is_not_an_option():
    parser, _ = cli.verb_parser("bench", "search")
    with pytest.raises(SystemExit):
        parser.parse_args(["--only"])


@pytest.mark.parametrize(("command", "old"), cli.RENAMED)
def test_a_renamed_option_is_refused_with_its_new_name(command: str, old: str, capsys: pytest.CaptureFixture[str]):
    new = cli.RENAMED[command, old]
    assert new in [name for action in actions(tuple(command.split())) for name in action.option_strings]
    assert main([*command.split(), f"{old}=2"]) == 2
    assert capsys.readouterr().err == f"mm_ros: {old} is now called {new}\n"


def devices(*words: str):
    from mm_ros.cli.session_options import faults

    given = {"evaluate": ["a.bvh"], "session": ["a.bvh", "-o", "new"], "synth": ["-o", "new"]}[words[0]]
    parser, _ = cli.verb_parser(*words)
    return faults(parser.parse_args([*given, "--look-around", "60", "--grips", "28"]))


@pytest.mark.parametrize("words", [("evaluate",), ("session", "from-bvh"), ("synth", "session")], ids=" ".join)
def test_angles_of_simulated_trackers_are_degrees(words: tuple[str, ...]):
    simulation = devices(*words)
    assert simulation.look_around_rad == pytest.approx(math.pi / 3)
    assert simulation.grip_sd_rad == pytest.approx(math.radians(28))


def test_angles_of_a_simulated_camera_are_degrees():
    from mm_ros.cli.arguments import CAMERA_ANGLES, camera_of
    from mm_ros.tracking.landmark_simulation import COMMON

    camera = camera_of("pitch=10,field_of_view=90,side=-30,turn_noise=5,lost=0.3,height=2")
    assert (camera.pitch, camera.field_of_view) == pytest.approx((math.radians(10), math.pi / 2))
    assert (camera.side, camera.turn_noise) == pytest.approx((math.radians(-30), math.radians(5)))
    assert (camera.lost, camera.height) == (0.3, 2.0)
    text = Path(camera_of.__globals__["__file__"]).parents[1].joinpath("tracking", "landmark_simulation.py").read_text()
    in_radians = {line.split(":")[0].strip() for line in text.splitlines() if re.search(r"#.*\brad\b", line)}
    assert in_radians == set(CAMERA_ANGLES) & set(vars(COMMON)), "a new angle must be converted"


def test_angles_of_a_robots_joints_are_degrees():
    pytest.importorskip("rclpy", reason="rclpy is not installed")
    from mm_ros.cli import up

    parser, _ = cli.verb_parser("up")

    def t_pose(text: str) -> str:
        args = parser.parse_args(["--urdf", "r.urdf", "--urdf-t-pose", text])
        return next(p.value for p in up.overrides("robot_follower", args) if p.name == "urdf_t_pose")

    from mm_ros.robot.angles import parsed_angles

    angles = pytest.approx({"a": math.pi / 2, "b": -math.pi / 4})
    assert parsed_angles(t_pose("a=90, b=-45"), "x") == angles
    for wrong in ("a=wide", "a=nan", "a=361"):
        with pytest.raises(MmRosError, match=f"expected 'joint=degrees', -360 to 360, came '{wrong}'"):
            t_pose(wrong)

    from mm_ros.ros import launching

    launched = {a.name: a.default for a in launching.ARGUMENTS} | {"urdf_t_pose": "a=90, b=-45"}
    assert parsed_angles(launching.overrides("robot_follower", launched)["urdf_t_pose"], "x") == angles
    with pytest.raises(MmRosError, match="urdf_t_pose: expected 'joint=degrees'"):
        launching.check(launched | {"urdf_t_pose": "a=wide"})


def test_evaluate_takes_degrees_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Degrees of the command line reach the simulation of the evaluation as radians."""
    from mm_ros.evaluation import evaluate as module

    (tmp_path / "a.bvh").touch()
    given = {}

    def stop(paths, database, rows, settings, simulation, *rest, **more):
        given["simulation"] = simulation
        raise MmRosError("seen")

    monkeypatch.setattr(module, "evaluate", stop)
    words = ["evaluate", str(tmp_path / "a.bvh"), "--database", str(tmp_path / "a.mmdb"), "--look-around", "60"]
    assert main(words) == 2
    assert given["simulation"].look_around_rad == pytest.approx(math.pi / 3)
    with pytest.raises(SystemExit):
        main([*words[:-1], "200"])


@pytest.mark.parametrize("option", ["--speed", "--hour"])
def test_what_the_option_takes_the_player_plays(option: str):
    """`--speed 0.001` was taken, and then refused as a `rate` with another range."""
    for speed in (NUMBERS[option].low, NUMBERS[option].high):
        assert Player([BagMessage("/avatar/trackers", "mm_ros/msg/TrackerArray", 0, b"")], speed).rate == speed
