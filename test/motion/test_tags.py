"""Boolean queries over tags."""

import numpy as np
import pytest

from mm_ros.base.errors import MmRosError
from mm_ros.motion.tags import mask_of, matches
from mm_ros.search.interface import ANY_FRAME

NAMES = ("walk", "run", "crouch", "turn", "tip-toe")
TAGS = np.arange(32, dtype=np.uint64)  # all combinations
HAS = {name: (np.arange(32) >> i) & 1 == 1 for i, name in enumerate(NAMES)}
QUERIES = {
    "walk": HAS["walk"],
    "!walk": ~HAS["walk"],
    "(walk|run)&!crouch": (HAS["walk"] | HAS["run"]) & ~HAS["crouch"],
    "walk & turn & !tip-toe": HAS["walk"] & HAS["turn"] & ~HAS["tip-toe"],
    "!(crouch|turn)": ~(HAS["crouch"] | HAS["turn"]),
    "walk|run&crouch": HAS["walk"] | (HAS["run"] & HAS["crouch"]),
    "!!run": HAS["run"],
    "": np.ones(32, np.bool_),
}


@pytest.mark.parametrize("text", list(QUERIES))
def test_queries_mean_what_they_say(text: str):
    assert matches(text, NAMES, TAGS).tolist() == QUERIES[text].tolist()


@pytest.mark.parametrize("text", [t for t in QUERIES if t != "walk|run&crouch"])
def test_the_searchs_mask_is_the_query(text: str):
    assert mask_of(text, NAMES).matches(TAGS).tolist() == QUERIES[text].tolist()


def test_an_empty_query_is_any_frame():
    assert mask_of("  ", NAMES) == ANY_FRAME


def test_what_a_mask_cannot_say_is_refused():
    with pytest.raises(MmRosError, match="too complex for the search; expected tags joined by &"):
        mask_of("walk|run&crouch", NAMES)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("wlak", "tag 'wlak' is not in the database. Did you mean 'walk'\\? Tags: walk, run, crouch, turn, tip-toe"),
        ("walk &", "ends too early; expected a tag"),
        ("(walk", "a bracket is not closed"),
        ("walk)", "'\\)' is not expected there"),
        ("walk run", "'run' is not expected there"),
        ("walk + run", "'\\+' is unknown; expected tags, &, |"),
        ("|walk", "'\\|' is not expected there; expected a tag"),
    ],
)
def test_typos_are_sentences(text: str, sentence: str):
    with pytest.raises(MmRosError, match=sentence):
        matches(text, NAMES, TAGS)
