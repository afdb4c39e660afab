"""Tag queries such as `(walk|run)&!crouch`, which combine names of tags by and (&), or (|), not (!) and brackets."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.search.interface import ANY_FRAME, Mask

_TOKEN = re.compile(r"\s*(?:([A-Za-z0-9_.-]+)|([&|!()]))")
_Node = Any  # a parsed query: ("tag", bit), ("not", node), ("and", node, node) or ("or", node, node)


def parse(text: str, tag_names: Sequence[str]) -> _Node | None:
    """Convert the text of a tag query to a tree; return None for an empty query, which matches all frames."""
    tokens = _tokens(text)
    if not tokens:
        return None
    node = _either(text, tokens, tag_names)
    if tokens:
        raise MmRosError(f"tag query '{text}': '{tokens[0]}' is not expected there")
    return node


def _tokens(text: str) -> list[str]:
    out, at = [], 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if not found:
            raise MmRosError(
                f"tag query '{text}': '{text[at:].strip()[0]}' is unknown; expected tags, &, |, ! and brackets"
            )
        out.append(found.group(1) or found.group(2))
        at = found.end()
    return out


def _either(text: str, tokens: list[str], names: Sequence[str]) -> _Node:
    node = _both(text, tokens, names)
    while tokens and tokens[0] == "|":
        tokens.pop(0)
        node = ("or", node, _both(text, tokens, names))
    return node


def _both(text: str, tokens: list[str], names: Sequence[str]) -> _Node:
    node = _single(text, tokens, names)
    while tokens and tokens[0] == "&":
        tokens.pop(0)
        node = ("and", node, _single(text, tokens, names))
    return node


def _single(text: str, tokens: list[str], names: Sequence[str]) -> _Node:
    if not tokens:
        raise MmRosError(f"tag query '{text}' ends too early; expected a tag")
    word = tokens.pop(0)
    if word == "!":
        return ("not", _single(text, tokens, names))
    if word == "(":
        node = _either(text, tokens, names)
        if not tokens or tokens.pop(0) != ")":
            raise MmRosError(f"tag query '{text}': a bracket is not closed")
        return node
    if word in "&|)":
        raise MmRosError(f"tag query '{text}': '{word}' is not expected there; expected a tag")
    if word not in names:
        near = difflib.get_close_matches(word, names, 1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise MmRosError(f"tag '{word}' is not in the database.{hint} Tags: {', '.join(names) or 'none'}")
    return ("tag", list(names).index(word))


def matches(text: str, tag_names: Sequence[str], tags: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return for each frame (N,) whether its tags match the tag query `text`."""
    node = parse(text, tag_names)
    return np.ones(len(tags), np.bool_) if node is None else _evaluate(node, tags)


def _evaluate(node: _Node, tags: NDArray[np.uint64]) -> NDArray[np.bool_]:
    if node[0] == "tag":
        return np.asarray((tags >> np.uint64(node[1])) & np.uint64(1), np.bool_)
    if node[0] == "not":
        return ~_evaluate(node[1], tags)
    a, b = _evaluate(node[1], tags), _evaluate(node[2], tags)
    return a & b if node[0] == "and" else a | b


def mask_of(text: str, tag_names: Sequence[str]) -> Mask:
    """Convert a tag query to a mask for the search; raise MmRosError if no mask can express the query."""
    node = parse(text, tag_names)
    if node is None:
        return ANY_FRAME
    all_of = any_of = none_of = 0
    for wanted, unwanted in _clauses(node, True):
        if wanted & unwanted:  # "a or not a" is true for every frame, so this condition is left out
            continue
        if unwanted:
            if wanted or unwanted & (unwanted - 1):
                raise _too_complex(text)
            none_of |= unwanted
        elif wanted & (wanted - 1) == 0:
            all_of |= wanted
        elif any_of in (0, wanted):
            any_of = wanted
        else:
            raise _too_complex(text)
    return Mask(all_of, any_of, none_of)


def _too_complex(text: str) -> MmRosError:
    return MmRosError(
        f"tag query '{text}' is too complex for the search; expected tags joined by &, at most one group of |, "
        "and ! on single tags"
    )


def _clauses(node: _Node, sign: bool) -> list[tuple[int, int]]:
    """Convert a query to pairs of bit masks (a, b); for each pair, a frame must have a tag in a, or lack a tag in b."""
    if node[0] == "tag":
        return [(1 << node[1], 0) if sign else (0, 1 << node[1])]
    if node[0] == "not":
        return _clauses(node[1], not sign)
    a, b = _clauses(node[1], sign), _clauses(node[2], sign)
    if (node[0] == "and") == sign:
        return a + [c for c in b if c not in a]
    return [(wa | wb, ua | ub) for wa, ua in a for wb, ub in b]
