"""`make audit ADVISORIES=FOLDER`: known vulnerabilities without the network."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

AUDIT = Path(__file__).resolve().parents[2] / "tools" / "audit.py"


@pytest.fixture
def audit():
    spec = importlib.util.spec_from_file_location("audit", AUDIT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def advisory(folder, number, name="jinja2", events=(), versions=(), **more):
    folder.mkdir(parents=True, exist_ok=True)
    affected = {"package": {"name": name, "ecosystem": "PyPI"}, "versions": list(versions)}
    affected["ranges"] = [{"type": "ECOSYSTEM", "events": [*events]}] if events else []
    content = {"id": f"TEST-{number}", "published": "2026-01-02T00:00:00Z", "affected": [affected], **more}
    text = json.dumps(content) if number % 2 else yaml.safe_dump(content)
    (folder / f"TEST-{number}.{'json' if number % 2 else 'yaml'}").write_text(text)


def test_affected_versions_are_found_by_range_and_by_list(audit, tmp_path):
    advisory(tmp_path / "jinja2", 1, "Jinja2", [{"introduced": "0"}, {"fixed": "2.11.3"}])
    advisory(tmp_path / "jinja2", 2, events=[{"introduced": "3.0"}, {"last_affected": "3.1"}])
    advisory(tmp_path / "jinja2", 3, versions=["2.4.1"])
    advisory(tmp_path / "jinja2", 4, versions=["2.4.1"], withdrawn="2026-02-01T00:00:00Z")
    advisory(tmp_path / "numpy", 5, "numpy", [{"introduced": "0"}])

    def found(version):
        return audit.audit(tmp_path, {"jinja2": version})[0]

    assert found("2.4.1") == ["jinja2 2.4.1: TEST-1, TEST-3"]
    assert found("2.11.2") == ["jinja2 2.11.2: TEST-1"]
    assert found("2.11.3") == [] and found("3.1.1") == []
    assert found("3.1") == ["jinja2 3.1: TEST-2"]
    assert audit.audit(tmp_path, {"jinja2": "2.11.3"})[1:] == (4, "2026-01-02")


def test_the_command_reports_and_refuses_a_folder_without_advisories(tmp_path):
    def run(folder):
        command = [sys.executable, AUDIT, folder]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    empty = run(tmp_path)
    assert empty.returncode == 2 and "NOTHING WAS CHECKED" in empty.stderr
    advisory(tmp_path / "a", 1, "pytest", [{"introduced": "0"}])
    done = run(tmp_path)
    assert done.returncode == 1 and f"pytest {pytest.__version__}: TEST-1" in done.stdout
    advisory(tmp_path / "a", 1, "pytest", [{"introduced": "0"}, {"fixed": "1.0"}])
    assert run(tmp_path).returncode == 0
