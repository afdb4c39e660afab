"""A pytest plugin that decides which tests share a worker of pytest-xdist, and starts the slowest files first.

The tests of one file share a worker, because they share fixtures. All files with a browser share one worker, because
two browsers at once are so slow that waits time out. A file in `BY_PARAMETER` has one worker per parameter value.
"""

from __future__ import annotations

from typing import Any

import pytest

BROWSER = (
    *("show/test_viewer_page.py", "web/test_headset_page.py", "web/test_steering_page.py", "show/test_viewer.py"),
    *("web/test_headset_ways.py", "web/test_page_access.py", "show/test_browser.py"),
)
# Files whose tests are divided among workers by the value of their fixture's parameter.
BY_PARAMETER = {"ros/test_graph_faults.py": ("[processes]", "[composed]")}
# The test files that take longest begin first, so that no worker runs alone at the end. Files that wait (for graphs or
# processes) alternate with files that compute, so that one worker computes while another waits.
LONGEST_FIRST = (
    *BROWSER,
    *("ros/test_graph_faults.py", "evaluation/test_evaluate.py", "ros/test_graph_nodes.py", "base/test_cache.py"),
    *("ros/test_bench.py", "base/test_hostile_files.py", "sessions/test_session_ros.py", "robot/test_follow.py"),
    *("ros/test_graph_up.py", "facing/test_fusion_place.py", "ros/test_graph_robot.py", "ros/test_absurd_messages.py"),
    *("ros/test_graph_rviz.py", "base/test_layout.py", "cli/test_ctrl_c.py", "search/test_search.py"),
    *("cli/test_demo.py", "facing/test_fusion.py", "ros/test_graph_composed.py", "base/test_packaging.py"),
    *("cli/test_setup.py", "evaluation/test_known_answers.py", "base/test_privacy.py", "pose/test_elbows.py"),
    *("ros/test_graph_machines.py", "test_fingers.py", "base/test_ros_process.py", "base/test_current_folder.py"),
    *("base/test_leftover_processes.py", "facing/test_orientation_training.py"),
)


def unit(nodeid: str) -> str:
    """Return the name of the group to which a test belongs; one worker runs all tests of a group."""
    file, _, test = nodeid.removeprefix("test/").partition("::")
    if file in BROWSER:
        return "browser"
    return file + next((value for value in BY_PARAMETER.get(file, ()) if test.endswith(value)), "")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: i for i, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.nodeid.removeprefix("test/").partition("::")[0], len(rank)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    from xdist.scheduler import LoadFileScheduling

    class ByUnit(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return unit(nodeid)

    return ByUnit(config, log)
