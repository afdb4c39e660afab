"""Declares the fields of settings dataclasses as ROS parameters, checks new values and changes settings at runtime."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.node import Node
from rclpy.parameter import Parameter

from mm_ros.base.errors import MmRosError
from mm_ros.base.files import read_yaml
from mm_ros.base.renamed import refuse_renamed
from mm_ros.base.settings import Settings, Spec
from mm_ros.ros.internals import overrides

_HUGE = 1e9


def world_frame(given: str, config: str) -> str:
    """Return the name of the world frame for all nodes: `given` if it is not empty, or else the value in the parameter
    file `config`, or else ""."""
    if given:
        return checked_frame(given)
    named = set(_values("world_frame", read_yaml(config) if config else {}))
    if len(named) > 1:
        raise MmRosError(f"{config}: nodes have different world frames: {', '.join(sorted(named))}. Name one.")
    return checked_frame(named.pop()) if named else ""


def _values(name: str, tree: Any) -> list[str]:
    if not isinstance(tree, dict):
        return []
    own = tree.get("ros__parameters")
    found = [str(own[name])] if isinstance(own, dict) and name in own else []
    return found + [v for key, branch in tree.items() if key != "ros__parameters" for v in _values(name, branch)]


def checked_frame(name: str) -> str:
    if not name or name.startswith("/") or any(c.isspace() for c in name):
        raise MmRosError(f"world_frame: expected the name of a TF frame such as map or odom, came '{name}'")
    return name


def descriptor(default: Any, spec: Spec) -> ParameterDescriptor:
    unit = f" [{spec.unit}]" if spec.unit else ""
    out = ParameterDescriptor(description=spec.description + unit, read_only=False)
    if spec.choices:
        out.additional_constraints = "one of: " + ", ".join(spec.choices)
    if spec.low is None and spec.high is None:
        return out
    low = -_HUGE if spec.low is None else spec.low
    high = _HUGE if spec.high is None else spec.high
    if isinstance(default, float):
        out.floating_point_range = [FloatingPointRange(from_value=float(low), to_value=float(high))]
    elif isinstance(default, int) and not isinstance(default, bool):
        out.integer_range = [IntegerRange(from_value=int(low), to_value=int(high), step=1)]
    return out


class LiveSettings:
    """The ROS parameters of a node, made from settings dataclasses. The attribute `current` holds the settings with the
    present values of the parameters.

    The function `on_change` is called after each change of a parameter. If `on_change` raises MmRosError, the change is
    refused with the text of the error.
    """

    def __init__(self, node: Node, types: Sequence[type[Settings]], on_change: Callable[[], None]) -> None:
        for name, given in overrides(node).items():
            refuse_renamed(node.get_name(), name, given.value, for_all_nodes=True)
        self._node_name = node.get_name()
        self._types = tuple(types)
        self._on_change = on_change
        self._owner: dict[str, int] = {}
        values: list[dict[str, Any]] = []
        for i, kind in enumerate(self._types):
            specs, defaults = kind.specs(), kind.defaults()
            mine = {}
            for name, spec in specs.items():
                default = defaults[name]
                declared = list(default) if isinstance(default, tuple) else default
                got = _declared(node, name, declared, descriptor(default, spec))
                mine[name] = _as_type(got, default)
                self._owner[name] = i
            values.append(mine)
        self.current: list[Settings] = [k(**v) for k, v in zip(self._types, values, strict=True)]
        node.add_on_set_parameters_callback(self._set)
        _warn_of_misspelled(node, list(self._owner))

    def _set(self, parameters: list[Parameter]) -> SetParametersResult:
        before = list(self.current)
        try:
            self._apply(parameters)
        except Exception as error:  # a wrong value is refused, and does not end the node
            self.current = before
            with suppress(Exception):
                self._on_change()  # applies the old values to all parts of the node again
            reason = str(error) if isinstance(error, MmRosError) else repr(error)
            return SetParametersResult(successful=False, reason=reason)
        return SetParametersResult(successful=True)

    def with_parameters(self, parameters: list[Parameter]) -> list[Settings] | None:
        """Return the settings with the changed `parameters`, or None if the change would be refused."""
        before = list(self.current)
        try:
            self._replace(parameters)
            return self.current
        except Exception:  # rclpy calls `_set` next, which reports why the change is refused
            return None
        finally:
            self.current = before

    def _apply(self, parameters: list[Parameter]) -> None:
        if self._replace(parameters):
            self._on_change()

    def _replace(self, parameters: list[Parameter]) -> bool:
        changed = False
        for p in parameters:
            if p.name not in self._owner:
                continue  # Parameters of rclpy, such as use_sim_time and QoS overrides, are no settings of the node.
            refuse_renamed(self._node_name, p.name, p.value)
            i = self._owner[p.name]
            spec = self._types[i].specs()[p.name]
            if not spec.live:
                raise MmRosError(f"{p.name} is read only at the start; restart the node with another value")
            value = _as_type(p.value, self._types[i].defaults()[p.name])
            self.current[i] = self.current[i].with_values(**{p.name: value})
            changed = True
        return changed


def _declared(node: Node, name: str, default: Any, described: ParameterDescriptor) -> Any:
    """Declare a ROS parameter. For a default of type float, the parameter file may also contain an integer."""
    given = overrides(node).get(name)
    if given is not None and given.type_ == Parameter.Type.INTEGER and isinstance(default, float):
        overrides(node)[name] = Parameter(name, value=float(given.value))
    if given is not None and given.type_ == Parameter.Type.INTEGER_ARRAY and _floats(default):
        overrides(node)[name] = Parameter(name, value=[float(v) for v in given.value])
    try:
        return node.declare_parameter(name, default, described).value
    except (InvalidParameterTypeException, InvalidParameterValueException) as error:
        raise MmRosError(f"{node.get_fully_qualified_name()}: {error}") from error


def _floats(default: Any) -> bool:
    return isinstance(default, list) and all(isinstance(v, float) for v in default)


def _warn_of_misspelled(node: Node, known: list[str]) -> None:
    """Warn of unknown parameter names of a node that resemble a name in `known`. All other unknown names are ignored,
    because they may belong to another node."""
    for name in overrides(node):
        near = [] if name in known else difflib.get_close_matches(name, known, 1, 0.75)
        if near:
            node.get_logger().warning(f"parameter '{name}' does not exist here; did you mean '{near[0]}'?")


def _as_type(value: Any, default: Any) -> Any:
    if isinstance(default, tuple) and value is not None:
        return tuple(value)
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value
