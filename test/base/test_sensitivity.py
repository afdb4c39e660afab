"""`python tools/sensitivity.py`: which constants it finds, and what it changes."""

import subprocess
import sys
from pathlib import Path

import sensitivity

ROOT = Path(__file__).resolve().parents[2]
TEXT = '''"""Text with 0.5 in it."""

FIRST_S = 0.5  # s, "0.5"
SECOND_M: float = 2e-3
Count = 1.5
NUMBER = 3
É, OTHER = 0.5, 0.25
ANGLE, = (1.0,)
ß_M = 0.25; LAST_M = 0.75


def of(x=0.5):
    INNER = 0.5
    return x * INNER
'''


def test_floats_of_the_module_are_found_and_one_is_changed():
    found = sensitivity.constants(TEXT)
    values = {"FIRST_S": 0.5, "SECOND_M": 2e-3, "É": 0.5, "OTHER": 0.25, "LAST_M": 0.75, "ANGLE": 1.0}
    assert {name: number.value for name, number in found.items()} == values
    for name, before, after in (
        ("FIRST_S", "FIRST_S = 0.5 ", "FIRST_S = 1.0 "),
        ("SECOND_M", "float = 2e-3", "float = 0.004"),
        ("OTHER", "É, OTHER = 0.5, 0.25", "É, OTHER = 0.5, 0.5"),
        ("LAST_M", "LAST_M = 0.75", "LAST_M = 1.5"),
    ):
        assert sensitivity.changed(TEXT, found[name], 2.0) == TEXT.replace(before, after)


def test_an_unknown_name_is_refused_with_those_that_exist():
    tool, module = ROOT / "tools" / "sensitivity.py", "mm_ros/trajectory/fitted.py"
    command = [sys.executable, tool, module, "x.bvh", "--only", "NONE"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2 and "has no float NONE; it has WAIST_HALFLIFE_S" in done.stderr


def test_kernels_of_all_users_of_a_constant_are_compiled_anew():
    used = sensitivity.users(ROOT / "mm_ros", Path("mm_ros/trajectory/fitted.py"), "LEAN_HALFLIFE_S")
    assert {"mm_ros.trajectory.lean", "mm_ros.trajectory.from_trackers", "mm_ros.stages"} <= used
    assert not {"mm_ros.trajectory.fitted", "mm_ros.matching.matcher", "mm_ros.pose.kernel"} & used


def test_changes_within_the_spread_of_noise_do_not_count():
    runs = [{"skate": 0.1, "jitter": 100.0}, {"skate": 0.13, "jitter": 100.1}, {"skate": 0.09, "jitter": 99.9}]
    assert sensitivity.spread(runs) == {"skate": 0.13 - 0.09, "jitter": 0.5}
