"""Generates config/avatar.yaml and the tables in docs/graph.md from the descriptions of nodes, topics and
parameters."""

from __future__ import annotations

from typing import Any

from mm_ros.base.settings import Settings, Spec
from mm_ros.ros import graph

Types = tuple[type[Settings], ...]
_HEAD = """# All parameters with their defaults. Made from the settings dataclasses by `python tools/describe.py`.
# Copy it, change what you want, and start with config:=FILE or `mm_ros up --config FILE`.
"""


def parameters_yaml() -> str:
    blocks = [f"{name}:\n  ros__parameters:\n" + "".join(_yaml_lines(types)) for name, types in _blocks("/**/", "/**")]
    return "\n".join([_HEAD, *blocks])


def _blocks(before: str, all_nodes: str) -> list[tuple[str, Types]]:
    return [(all_nodes, (graph.FrameSettings,)), *((before + n.name, n.settings_types()) for n in graph.NODES)]


def _fields(types: Types) -> list[tuple[str, Any, Spec]]:
    out = []
    for kind in types:
        specs, defaults = kind.specs(), kind.defaults()
        out += [(name, defaults[name], specs[name]) for name in specs]
    return out


def _yaml_lines(types: Types) -> list[str]:
    return [f"    {name}: {_yaml(default)}  # {_words(spec)}\n" for name, default, spec in _fields(types)]


def _yaml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return "[" + ", ".join(_yaml(v) for v in value) + "]"
    return repr(value)


def _words(spec: Spec) -> str:
    unit = f" [{spec.unit}]" if spec.unit else ""
    return spec.description + unit + _range(spec)


def _range(spec: Spec) -> str:
    if spec.choices:
        return " (" + ", ".join(spec.choices) + ")"
    if spec.low is None and spec.high is None:
        return ""
    low = "" if spec.low is None else f"{spec.low:g}"
    high = "" if spec.high is None else f"{spec.high:g}"
    return f" ({low} … {high})"


def nodes_table() -> str:
    rows = [f"| `{n.name}` | {_names(n.inputs)} | {_names(n.outputs)} | {n.meaning} |" for n in graph.NODES]
    return "\n".join(["| node | in | out | what it does |", "|---|---|---|---|", *rows])


def topics_table() -> str:
    rows = []
    for t in graph.TOPICS.values():
        q = t.qos
        words = [
            "reliable" if q.reliable else "best effort",
            *(["latched"] if q.latched else []),
            f"depth {q.depth}" + (f" (listeners {q.listener_depth})" if q.writers > 1 else ""),
        ]
        if q.live_reliable is False:
            words.append("subscribed best effort")
        rows.append(f"| `{t.name}` | {t.type} | {', '.join(words)} | {t.rate} | {t.meaning} |")
    return "\n".join(["| topic | type | QoS | rate | what it is |", "|---|---|---|---|---|", *rows])


def parameters_tables() -> str:
    out = []
    for title, types in _blocks("", "all nodes"):
        rows = [
            f"| `{name}` | `{_yaml(default)}` | {spec.description} | {spec.unit} | {_range(spec).strip(' ()')} | "
            f"{'yes' if spec.live else 'at start'} |"
            for name, default, spec in _fields(types)
        ]
        head = ["| parameter | default | meaning | unit | range | live |", "|---|---|---|---|---|---|"]
        out.append("\n".join([f"### {title}", "", *head, *rows]))
    return "\n\n".join(out)


def _names(topics: tuple[str, ...]) -> str:
    return ", ".join(f"`{t}`" for t in topics) or "–"


def filled(text: str) -> str:
    """Replace the text between each pair of comments `<!-- begin NAME -->` and `<!-- end NAME -->` by the table
    NAME."""
    for name, table in (("nodes", nodes_table), ("topics", topics_table), ("parameters", parameters_tables)):
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        if begin in text:
            before, rest = text.split(begin, 1)
            text = f"{before}{begin}\n{table()}\n{end}{rest.split(end, 1)[1]}"
    return text
