"""`mm_ros bench engines`: three contenders on one user, and what it refuses."""

from __future__ import annotations

import json

import pytest
from toys import toy_database

from mm_ros.avatar import AvatarSettings
from mm_ros.cli.main import main
from mm_ros.evaluation.benchmarks.engines import HALFLIVES, INTERVALS, contenders
from mm_ros.motion.files import write_database


def test_without_users_there_is_nothing_to_compare(capsys):
    assert main(["bench", "engines"]) != 0
    assert "needs users" in capsys.readouterr().err


def test_effects_are_those_of_the_papers_tables():
    """Search interval and decay 0.01, 0.1 and 1 s, and no inertialization, of both engines."""
    settings = {c.name: c.settings for c in contenders(AvatarSettings(), effects=True)}
    assert list(settings)[:3] == ["search", "learned", "state_machine"]
    for engine in ("search", "learned"):
        assert [settings[f"{engine}, every {s:g} s"].matcher.search_interval for s in INTERVALS] == [0.01, 0.1, 1.0]
        assert [settings[f"{engine}, half-life {s:g} s"].post.blend_halflife for s in HALFLIVES] == [0.01, 0.1, 1.0]
        assert settings[f"{engine}, no inertialization"].post.blend_halflife == 0.0
    assert all(s.matcher.engine == "learned" for name, s in settings.items() if name.startswith("learned"))


def test_wandering_alone_needs_no_users(tmp_path, capsys):
    database, told = tmp_path / "toy.mmdb", tmp_path / "told.json"
    write_database(toy_database(2.0), database)
    assert main(["bench", "engines", "--minutes", "0.02", "--database", str(database), "--json", str(told)]) == 0
    result = json.loads(told.read_text())
    assert set(result["endured"]) == {"noise 0", "noise 0.3"}
    assert all(r["finite"] for by_engine in result["endured"].values() for r in by_engine.values())
    assert "minutes of synthetic input" in capsys.readouterr().out


def test_an_effort_below_nothing_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["bench", "engines", "--growth", "-1"])
    assert "argument --growth: expected a number, 0.001 to 1000, came '-1'" in capsys.readouterr().err
