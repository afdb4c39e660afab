"""The motion database and its file."""

import os
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bvh_dialects import walks
from toys import toy_database

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import Skeleton
from mm_ros.matching.engines.source import SearchSource
from mm_ros.maths import rotations as rot
from mm_ros.motion import default_database, features
from mm_ros.motion.build import BuildOptions, build_database, reference_skeleton
from mm_ros.motion.cleaning.clips import mirror
from mm_ros.motion.default_database import default_database_path
from mm_ros.motion.feature_files import example_yaml, format_layout, layout_of, read_functions, read_layout
from mm_ros.motion.features import Feature, FeatureLayout, default_layout, steered_layout
from mm_ros.motion.files import MAGIC, _header, read_database, write_database

NAMES = ("idle", "walk 1.3", "back 0.9", "side 0.5", "curve 0.6 0.8")
PLAIN = BuildOptions(stooped=0.0)  # bent copies have their own tests


@pytest.fixture(scope="module")
def clips():
    return [walks()[n].cut(0, 200) for n in NAMES]


@pytest.fixture(scope="module")
def database(clips):
    return build_database(clips, options=PLAIN)


def test_ranges_names_and_shapes(database):
    assert database.clip_names == NAMES
    assert database.range_starts.tolist() == [0, 200, 400, 600, 800]
    assert database.features.shape == (1000, 27) and database.features.dtype == np.float32
    assert database.clip_of(399) == 1


def test_features_are_normalized_and_mean_what_they_say(database, clips):
    raw = database.features * database.feature_std + database.feature_mean
    names = database.layout.column_names
    clip = clips[1]
    p, q = clip.globals()
    f = 60
    ahead = rot.rotate(rot.inverse(q[f, 0].astype(float)), (p[f + 60, 0] - p[f, 0]).astype(float))
    at = names.index("trajectory_position@1s.x")
    assert raw[200 + f, at : at + 2] == pytest.approx(ahead[:2], abs=1e-3)
    foot = rot.rotate(rot.inverse(q[f, 0].astype(float)), (p[f, 17] - p[f, 0]).astype(float))
    at = names.index("left_foot_position.x")
    assert raw[200 + f, at : at + 3] == pytest.approx(foot, abs=0.02)
    assert np.abs(database.features.mean(axis=0)).max() < 1e-4
    for columns in database.layout.offsets.values():
        assert np.sqrt(database.features[:, columns].var(axis=0).mean()) == pytest.approx(1, abs=1e-3)


def test_velocities_carry_a_pose_to_the_next(database):
    for start, stop in zip(database.range_starts, database.range_stops, strict=True):
        part = slice(start + 1, stop - 1)
        q, w = database.rotations[part].astype(float), database.angular_velocities[part].astype(float)
        ahead = rot.multiply(rot.exp(w / 60), q)
        truth = database.rotations[start + 2 : stop].astype(float)
        assert np.percentile(np.abs(rot.log(rot.multiply(rot.inverse(ahead), truth))[:, 1:]), 99) < 0.02
        # the root's own axes
        root, v = database.rotations[part, 0].astype(float), database.velocities[part, 0].astype(float)
        step = rot.rotate(root, v) / 60
        moved = (database.positions[start + 2 : stop, 0] - database.positions[start : stop - 2, 0]) / 2
        assert np.abs(step - moved).max() < 1e-4


def test_kinds_and_bands_are_tags(database):
    assert {"walk", "band_upright"} <= set(database.tag_names)
    assert all(
        (database.tags[r] & np.uint64(database.tag_bit("band_upright"))).any()
        for r in (slice(200, 400), slice(400, 600))
    )
    assert "upright" in [name for name, *_ in database.provenance["bands"]]
    with pytest.raises(MmRosError, match="tag 'wlak' is not in the database"):
        database.tag_bit("wlak")


def test_the_matcher_uses_the_stored_index_and_finds_what_a_new_one_finds(database, tmp_path: Path):
    write_database(database, tmp_path / "a.mmdb")
    mapped = read_database(tmp_path / "a.mmdb")
    weights = database.layout.column_weights()
    stored = SearchSource(mapped, 1.0, "tree", BuildOptions().ends_excluded_s, weights).engine
    assert stored.from_store
    assert np.shares_memory(stored.index.row_codes, mapped.search_arrays["row_codes"])
    new = SearchSource(replace(database, search_arrays={}), 1.0, "tree", BuildOptions().ends_excluded_s, weights).engine
    queries = np.random.default_rng(0).normal(size=(500, 27)).astype(np.float32)
    queries[::2] = database.features[:500:2] + np.float32(0.1)
    for a, b in zip(stored.search_batch(queries, weights), new.search_batch(queries, weights), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_changed_database_never_uses_the_old_index(database):
    weights = database.layout.column_weights()
    changed = replace(database, features=np.ascontiguousarray(database.features[::-1]))
    engine = SearchSource(changed, 1.0, "tree", BuildOptions().ends_excluded_s, weights).engine
    assert not engine.from_store
    assert engine.search(changed.features[50], weights) == (50, 0.0)
    assert not SearchSource(database, 1.0, "tree", 0.3, weights).engine.from_store


def test_write_then_read_is_equal_and_mapped(database, tmp_path: Path):
    path = tmp_path / "a.mmdb"
    write_database(database, path)
    again = read_database(path)
    for name in (
        "positions",
        "rotations",
        "velocities",
        "angular_velocities",
        "contacts",
        "tags",
        "features",
        "range_stops",
        "feature_std",
    ):
        ours, theirs = getattr(database, name), getattr(again, name)
        assert ours.dtype == theirs.dtype and np.array_equal(ours, theirs)
        assert not theirs.flags.writeable
    assert again.skeleton.hash == database.skeleton.hash and again.layout.hash == database.layout.hash
    assert again.provenance == database.provenance and again.clip_names == database.clip_names
    assert set(again.search_arrays) == set(database.search_arrays)
    assert os.stat(path).st_mode & 0o777 == 0o444


def test_building_twice_gives_the_same_bytes(clips, tmp_path: Path):
    for name in ("a", "b"):
        write_database(build_database(clips), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_who_has_the_old_file_keeps_it_when_a_new_one_comes(database, tmp_path: Path):
    path = tmp_path / "a.mmdb"
    write_database(database, path)
    old = read_database(path)
    write_database(replace(database, features=database.features * 2), path)
    assert np.array_equal(old.features, database.features)
    assert [p.name for p in tmp_path.iterdir()] == ["a.mmdb"]


def damaged(tmp_path: Path, database, how) -> Path:
    path = tmp_path / "a.mmdb"
    write_database(database, path)
    data = bytearray(path.read_bytes())
    other = tmp_path / "b.mmdb"
    other.write_bytes(how(data))
    return other


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        (lambda d: d[:-100], "is broken: expected .* bytes, came"),
        (lambda d: d[:10], "is not a motion database"),
        (lambda d: b"PNG" + bytes(d), "is not a motion database"),
        (lambda d: d[:8] + struct.pack("<I", 9) + d[12:], "has version 9; this mm_ros reads up to 1. Update mm_ros"),
        (lambda d: d[:40] + b"\0" + d[41:], "its header does not match its checksum"),
    ],
)
def test_broken_files_are_refused_in_a_sentence(how, sentence: str, database, tmp_path: Path):
    with pytest.raises(MmRosError, match=sentence):
        read_database(damaged(tmp_path, database, how))


def test_a_missing_file_is_a_sentence(tmp_path: Path):
    with pytest.raises(MmRosError, match="cannot be read"):
        read_database(tmp_path / "none.mmdb")
    with pytest.raises(MmRosError, match="cannot write"):
        write_database_in_a_file(tmp_path)


def write_database_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    from mm_ros.base.files import write_whole

    write_whole(tmp_path / "file" / "x", b"")


def test_the_header_tells_without_reading_arrays(database, tmp_path: Path):
    write_database(database, tmp_path / "a.mmdb")
    header = _header(tmp_path / "a.mmdb")[0]
    assert header["layout_hash"] == database.layout.hash and header["clip_names"] == list(NAMES)
    assert (tmp_path / "a.mmdb").read_bytes()[:8] == MAGIC


def test_several_subjects_get_one_body(clips):
    tall = Skeleton((clips[0].skeleton.offsets * np.float32(1.1)).astype(np.float32))
    from mm_ros.motion.cleaning.legs import onto_skeleton

    other = replace(onto_skeleton(clips[1], tall), name="tall")
    both = build_database([*clips, other])
    assert both.skeleton.hash == reference_skeleton([c.skeleton for c in [*clips, other]]).hash
    assert clips[0].skeleton.leg_length < both.skeleton.leg_length < tall.leg_length
    assert both.provenance["feet"]["stance_drift_median_m"] < 0.005
    speed = both.velocities[1030:1150, 0, 0].mean() / both.velocities[230:350, 0, 0].mean()
    assert speed == pytest.approx(1, abs=0.02)  # both in the common body's scale


def test_mirrored_frames_double_the_database(clips):
    db = build_database(clips[:2], options=replace(PLAIN, mirror=True))
    assert db.clip_names == ("idle", "idle_mirrored", "walk 1.3", "walk 1.3_mirrored")
    assert np.abs(db.positions[600:800, 0, 1] + db.positions[400:600, 0, 1]).max() < 1e-3
    assert mirror(clips[0]).name == "idle_mirrored"


def test_a_feature_that_never_varies_is_named(clips):
    layout = FeatureLayout(
        (*default_layout().features, Feature("floor", "function", function="own:flat", width=2))
    )
    with pytest.raises(MmRosError, match="feature 'floor' does not vary in this motion"):
        build_database(clips, layout, BuildOptions(functions={"floor": flat}))


def flat(positions, rotations, rate):
    return np.zeros((len(positions), 2))


def height(positions, rotations, rate):
    return positions[:, 6, 2:3] + positions[:, 14, 2:3]


def test_own_functions_and_the_past_are_features(clips):
    layout = FeatureLayout(
        (
            Feature("past", "trajectory_position", times=(-0.5,)),
            Feature("own", "function", function="own:height", width=1),
        )
    )
    db = build_database(clips[1:2], layout, BuildOptions(functions={"own": height}))
    raw = db.features * db.feature_std + db.feature_mean
    assert raw[100, 0] < -0.5 and layout.size == 3
    with pytest.raises(MmRosError, match="feature 'own' needs its function 'own:height': give the YAML file"):
        build_database(clips[1:2], layout)


OWN = "  - {name: own, kind: function, function: 'parts.height:head', width: 1}\n"


def test_own_functions_are_looked_up_beside_the_yaml_that_names_them(clips, tmp_path: Path, monkeypatch):
    yaml, parts = tmp_path / "f.yaml", tmp_path / "parts"
    yaml.write_text("features:\n  - {name: a, kind: joint_velocity, joint: head}\n" + OWN)
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "parts").mkdir(parents=True)
    (elsewhere / "parts" / "height.py").write_text("raise SystemExit('not this one')\n")
    monkeypatch.chdir(elsewhere)
    layout = read_layout(yaml)
    with pytest.raises(MmRosError, match=r"height\.py does not exist; 'parts\.height' must be in the folder"):
        read_functions(yaml, layout)
    parts.mkdir()
    (parts / "height.py").write_text("raise ValueError('oh')\n")
    with pytest.raises(MmRosError, match=r"height\.py cannot be run \(ValueError: oh\)"):
        read_functions(yaml, layout)
    (parts / "height.py").write_text("def head(positions, rotations, rate):\n    return positions[:, 6, 2:3]\n")
    database = build_database(clips, layout, BuildOptions(stooped=0.0, functions=read_functions(yaml, layout)))
    own = database.features[:, -1] * database.feature_std[-1] + database.feature_mean[-1]
    assert own[:200] == pytest.approx(clips[0].globals()[0][:, 6, 2], abs=0.02)
    (parts / "height.py").write_text("raise SystemExit('opening a database runs nothing')\n")
    write_database(database, tmp_path / "a.mmdb")
    again = read_database(tmp_path / "a.mmdb")
    assert again.layout == layout
    SearchSource(again, 1.0, "tree", 0.5, layout.column_weights()).restart()


def test_a_function_outside_of_the_yamls_folder_is_refused(tmp_path: Path):
    yaml = tmp_path / "f.yaml"
    for function in ("..up:f", "/tmp/x:f", "os", "os:path.join"):
        yaml.write_text(OWN.replace("parts.height:head", function).join(["features:\n", ""]))
        with pytest.raises(MmRosError, match=r"feature 'own': function: expected 'package\.module:name', came"):
            read_functions(yaml, read_layout(yaml))


def test_features_yaml_in_config_is_the_built_in_layout_with_its_weights():
    """Users copy this file, so all its text must match."""
    path = Path(__file__).parents[2] / "config" / "features.yaml"
    assert read_layout(path) == default_layout()
    assert path.read_text() == example_yaml(), "run tools/describe.py"


def test_layouts_have_names_or_are_files(tmp_path: Path):
    assert layout_of("vr") == default_layout() and layout_of("steered") == steered_layout()
    assert {f.name for f in steered_layout().features} - {f.name for f in default_layout().features} == {
        "trajectory_velocity"
    }
    own = tmp_path / "own.yaml"
    own.write_text(format_layout(default_layout()))
    assert layout_of(str(own)) == default_layout()
    with pytest.raises(MmRosError, match="'other' is neither a YAML file nor one of vr, steered"):
        layout_of("other")
    with_function = FeatureLayout((*default_layout().features, Feature("f", "function", function="a:b", width=1)))
    own.write_text(format_layout(with_function))
    with pytest.raises(MmRosError, match="needs a database that `mm_ros import --features` made"):
        default_database_path(features=str(own))


def test_default_databases_of_two_layouts_are_built_side_by_side(monkeypatch, tmp_path: Path):
    """The first one waits for the second one, which therefore must not wait for the lock of the first one."""
    first_began, second_is_there = threading.Event(), threading.Event()

    def make(path, layout, report):
        if layout == default_layout():
            first_began.set()
            assert second_is_there.wait(60), "the second database waited until the first one was built"
        path.write_bytes(b"database")

    monkeypatch.setenv("MM_ROS_CACHE", str(tmp_path))
    monkeypatch.setattr(default_database, "_make", make)
    with ThreadPoolExecutor(1) as other:
        first = other.submit(default_database_path, None, "vr")
        assert first_began.wait(60)
        second = default_database_path(features="steered")
        second_is_there.set()
        assert first.result().is_file() and second.is_file() and first.result() != second


def test_a_layout_survives_yaml(tmp_path: Path):
    layout = FeatureLayout(
        (Feature("a", "trajectory_direction", times=(-0.2, 0.4), weight=2.0), Feature("b", "joint_velocity", "head"))
    )
    (tmp_path / "f.yaml").write_text(format_layout(layout))
    assert read_layout(tmp_path / "f.yaml") == layout


def test_a_database_with_the_leading_foot_is_refused_with_what_to_do(monkeypatch, tmp_path: Path):
    """As `--leading-foot` of the first version wrote it."""
    usual = toy_database(2.0)
    with monkeypatch.context() as then:
        then.setitem(features.KINDS, "leading_foot", features.Kind(1))
        then.setattr(features, "FORMER_KINDS", {})
        more = Feature("leading_foot", "leading_foot", times=(-0.4, -0.2), weight=4.0)
        layout = FeatureLayout((*usual.layout.features, more))
        wide = {"features": np.zeros((len(usual), 2)), "feature_mean": np.zeros(2), "feature_std": np.ones(2)}
        arrays = {n: np.concatenate((getattr(usual, n), v.astype(np.float32)), -1) for n, v in wide.items()}
        write_database(replace(usual, layout=layout, search_arrays={}, **arrays), tmp_path / "then.mmdb")
    with pytest.raises(MmRosError, match=r"--leading-foot\) does not exist any more.* Build it again"):
        read_database(tmp_path / "then.mmdb")


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("{name: a, kind: joint_position, joint: LeftTo}", "joint 'LeftTo' does not exist. Joints: root, hips"),
        ("{name: a, kind: spin}", "kind 'spin' is not among trajectory_position"),
        (
            "{name: leading_foot, kind: leading_foot, times: [-0.4, -0.2], weight: 4}",
            r"kind 'leading_foot' \(made with --leading-foot\) does not exist any more; leave this feature out",
        ),
        ("{name: a, kind: joint_position, colour: red}", "'colour' is unknown. Keys: name, kind"),
        ("{name: a, kind: joint_position, times: [0.1, 0.2]}", "a joint_position has no times"),
        ("{name: a}", "a feature needs 'name' and 'kind'"),
        ("{name: a, kind: function}", "needs 'function' and 'width'"),
        (
            "{name: a, kind: trajectory_position, joint: head, times: [0.5]}",
            "f.yaml: feature 'a': joint 'head' has no desired trajectory",
        ),
    ],
)
def test_wrong_features_are_sentences(row: str, sentence: str, tmp_path: Path):
    (tmp_path / "f.yaml").write_text(f"features:\n  - {row}\n")
    with pytest.raises(MmRosError, match=sentence):
        read_layout(tmp_path / "f.yaml")


def test_a_database_with_the_trajectory_of_another_joint_is_refused_with_its_path(tmp_path: Path):
    """Earlier versions built such databases, and queried them with the root's trajectory."""
    database = replace(toy_database(2.0), layout=default_layout())
    object.__setattr__(database.layout.features[0], "joint", "head")
    write_database(database, tmp_path / "old.mmdb")
    with pytest.raises(MmRosError, match=r"old\.mmdb: feature 'trajectory_position': joint 'head' has no desired"):
        read_database(tmp_path / "old.mmdb")
