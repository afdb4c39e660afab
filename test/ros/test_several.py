"""Users of `avatars`: a number of invented ones or a file, and their distribution over processes."""

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")

from mm_ros.base.errors import MmRosError
from mm_ros.ros.several import User, in_processes, side_by_side, users_of


def write(tmp_path, text):
    file = tmp_path / "users.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_a_file_names_each_users_source_database_and_place(tmp_path):
    database = tmp_path / "walk.mmdb"
    database.write_bytes(b"")
    text = f"anna: {{source: openxr, place: [0, 2.5], database: {database}}}\nbert:\n"
    assert users_of(write(tmp_path, text), "avatar") == [
        User("anna", 0, "0.0,2.5", "openxr", "", str(database)), User("bert", 0, "0.0,0.0")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- anna", "expected 1 to 64 avatars"),
        ("9lives: {}", "not a valid ROS namespace"),
        ("anna: {sorce: openxr}", "expected source, seed, place, path, database, came sorce"),
        ("anna: {source: magic}", "source 'magic' does not exist"),
        ("anna: {place: [1]}", r"expected \[x, y\] as place"),
        ("anna: {place: [.nan, 0]}", r"expected \[x, y\] as place"),
        ("anna: {place: [0, 10001]}", "at most 10 km"),
        ("anna: {seed: one}", "whole number as seed"),
        ("anna: {database: /nowhere/x.mmdb}", "database /nowhere/x.mmdb does not exist"),
    ],
)
def test_a_mistake_in_the_file_is_a_sentence(tmp_path, text, words):
    with pytest.raises(MmRosError, match=words):
        users_of(write(tmp_path, text), "avatar")


def test_neither_number_nor_file_is_refused():
    with pytest.raises(MmRosError, match="not a whole number, and not a file"):
        users_of("many", "avatar")


@pytest.mark.parametrize(("users", "most", "expected"), [(4, 6, [4]), (7, 6, [4, 3]), (3, 1, [1, 1, 1])])
def test_users_are_spread_evenly_over_as_few_processes_as_possible(users, most, expected):
    check_groups(users, in_processes(side_by_side("avatar", users), most), expected)


@pytest.mark.parametrize(
    ("users", "most", "cores", "expected"),
    [
        (4, 9, 2, [4]), (5, 9, 2, [3, 2]), (9, 9, 2, [5, 4]), (16, 9, 2, [8, 8]), (16, 9, 8, [4] * 4),
        (20, 9, 2, [7, 7, 6]),
    ],
)  # fmt: skip
def test_free_cores_are_used_from_half_of_a_process_on(users, most, cores, expected):
    check_groups(users, in_processes(side_by_side("avatar", users), most, cores), expected)


def check_groups(users, groups, expected):
    assert [len(group) for group in groups] == expected
    assert [user for group in groups for user in group] == side_by_side("avatar", users)
