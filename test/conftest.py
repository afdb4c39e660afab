"""Set-up that all tests share: the motion data, the bytecode cache, and a DDS domain that is only for this test run."""

import os
import tarfile
from pathlib import Path

import pytest
from domains import own_domain
from leftover_processes import (  # noqa: F401 (hooks)
    pytest_runtest_teardown,
    pytest_sessionfinish,
    pytest_terminal_summary,
)
from spread import pytest_collection_modifyitems, pytest_xdist_make_scheduler  # noqa: F401 (hooks)

from mm_ros.base.cache import configure_bytecode

# If Python must not write bytecode, each test worker would compile 400 modules in each run.
configure_bytecode()
# The variables are set before rclpy is imported, so that messages of tests stay in this test run on this machine.
os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
if "PYTEST_XDIST_WORKER" in os.environ:  # a parallel worker has inherited the DDS domain of its parent process
    os.environ.pop("ROS_DOMAIN_ID", None)
if "ROS_DOMAIN_ID" not in os.environ:
    os.environ["ROS_DOMAIN_ID"] = str(own_domain())
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

REPOSITORY = Path(__file__).resolve().parents[1]


def _find_data() -> Path | None:
    named = os.environ.get("MM_ROS_DATA")
    candidates = [Path(named)] if named else [REPOSITORY.parent / "shared" / "data"]
    return next((path for path in candidates if path.is_dir()), None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """If MM_ROS_NO_SKIPS is set, as by `make test-pose`, report each skipped test as failed."""
    report = yield
    if os.environ.get("MM_ROS_NO_SKIPS") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and nothing may be here: {call.excinfo.value}"
    return report


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder with the real motion data; a test that needs the folder is skipped if it is missing."""
    data = _find_data()
    if data is None:
        pytest.skip("no real data: neither MM_ROS_DATA nor ../shared/data is a folder")
    return data


@pytest.fixture(scope="session")
def cmu_locomotion(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _unpacked(data_dir / "cmu_locomotion.tar.xz", tmp_path_factory)


@pytest.fixture(scope="session")
def cmu_general(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _unpacked(data_dir / "cmu_general.tar.xz", tmp_path_factory)


def _unpacked(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not archive.is_file():
        pytest.skip(f"no real data: {archive} is not there")
    folder = tmp_path_factory.mktemp(archive.name.split(".")[0])
    with tarfile.open(archive) as handle:
        handle.extractall(folder, filter="data")
    return folder
