"""Client that reads, watches and changes the parameters of other nodes at runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rcl_interfaces.msg import Parameter as ParameterMsg
from rcl_interfaces.msg import ParameterEvent
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.node import Node
from rclpy.parameter import Parameter, parameter_value_to_python
from rclpy.qos import qos_profile_parameter_events

from mm_ros.base.settings import Spec
from mm_ros.ros import graph

Fields = dict[str, tuple[Any, Spec]]


class RemoteSettings:
    """Reads and changes those parameters of one avatar's nodes that may change at runtime. Call `watch` to choose the
    avatar, then call `look` and `tick` regularly.

    The function `found(node, values)` is called when a node has sent the values of its parameters. The function
    `changed(node, name, value)` is called when a parameter has changed, or when a change was refused and the parameter
    has its old value again. The function `report(text, refused)` is called with the result of each call of `set`.
    """

    def __init__(
        self,
        ros: Node,
        names: dict[str, tuple[str, ...]],
        found: Callable[[str, dict[str, Any]], None],
        changed: Callable[[str, str, Any], None],
        report: Callable[[str, bool], None],
    ) -> None:
        self._ros, self._names = ros, names
        self._found, self._changed, self._report = found, changed, report
        self.avatar = ""
        self._clients: dict[str, tuple[Any, Any]] = {}
        self._asked: dict[str, Any] = {}  # maps a node to the `Future` of its answer
        self._known: dict[tuple[str, str], Any] = {}
        self._wanted: dict[tuple[str, str], Any] = {}  # maps (node, parameter) to the value to be sent
        self._under_way: set[tuple[str, str]] = set()
        ros.create_subscription(ParameterEvent, "/parameter_events", self._on_event, qos_profile_parameter_events)

    def watch(self, avatar: str) -> None:
        if avatar == self.avatar:
            return
        for pair in self._clients.values():
            for client in pair:
                self._ros.destroy_client(client)
        for kept in (self._clients, self._asked, self._known, self._wanted, self._under_way):
            kept.clear()
        self.avatar = avatar

    def set(self, node: str, name: str, value: Any) -> None:
        """Change a parameter of a node: the value is sent at the next call of `tick`, unless a newer value replaces
        it."""
        self._wanted[(node, name)] = value

    def tick(self) -> None:
        for key in [k for k in self._wanted if k not in self._under_way]:
            self._send(key, self._wanted.pop(key))

    def look(self) -> None:
        """Request the parameter values of all nodes of the avatar that have started since the last call."""
        if not self.avatar:
            return
        there = {n for n, space in self._ros.get_node_names_and_namespaces() if space == f"/{self.avatar}"}
        for node in self._names.keys() & there - self._asked.keys():
            getter, _ = self._client(node)
            if getter.service_is_ready():
                avatar, names = self.avatar, self._names[node]
                self._asked[node] = getter.call_async(GetParameters.Request(names=list(names)))
                self._asked[node].add_done_callback(
                    lambda f, node=node, avatar=avatar, names=names: self._answered(avatar, node, names, f)
                )
        for node in self._asked.keys() - there:  # a node is asked again after a restart
            del self._asked[node]

    def _client(self, node: str) -> tuple[Any, Any]:
        if node not in self._clients:
            base = f"/{self.avatar}/{node}"
            self._clients[node] = (
                self._ros.create_client(GetParameters, f"{base}/get_parameters"),
                self._ros.create_client(SetParameters, f"{base}/set_parameters"),
            )
        return self._clients[node]

    def _answered(self, avatar: str, node: str, names: tuple[str, ...], future: Any) -> None:
        if avatar != self.avatar or future.result() is None or len(future.result().values) != len(names):
            return
        values = {n: parameter_value_to_python(v) for n, v in zip(names, future.result().values, strict=True)}
        self._known.update({(node, name): value for name, value in values.items()})
        self._found(node, values)
        for name, value in values.items():
            self._show((node, name), value)

    def _on_event(self, event: ParameterEvent) -> None:
        space, _, node = event.node.rpartition("/")
        if not self.avatar or space != f"/{self.avatar}" or node not in self._names:
            return
        for p in (*event.new_parameters, *event.changed_parameters):
            if p.name in self._names[node]:
                self._show((node, p.name), parameter_value_to_python(p.value))

    def _show(self, key: tuple[str, str], value: Any) -> None:
        self._known[key] = value
        if key not in self._wanted and key not in self._under_way:  # no newer change
            self._changed(*key, value)

    def _send(self, key: tuple[str, str], value: Any) -> None:
        node, name = key
        _, setter = self._client(node)
        if not setter.service_is_ready():
            self._refused(key, f"/{self.avatar}/{node} does not answer")
            return
        self._under_way.add(key)
        given: ParameterMsg = Parameter(name, value=value).to_parameter_msg()
        future = setter.call_async(SetParameters.Request(parameters=[given]))
        future.add_done_callback(lambda f, avatar=self.avatar: self._set(avatar, key, value, f))

    def _set(self, avatar: str, key: tuple[str, str], value: Any, future: Any) -> None:
        if avatar != self.avatar:
            return
        self._under_way.discard(key)
        answer = future.result()
        if answer is not None and answer.results and answer.results[0].successful:
            self._show(key, value)
            self._report(f"{key[1].replace('_', ' ')}: {value}", False)
        else:
            self._refused(key, answer.results[0].reason if answer is not None and answer.results else "no answer")

    def _refused(self, key: tuple[str, str], reason: str) -> None:
        self._report(f"{key[1].replace('_', ' ')} was refused: {reason}", True)
        if key in self._known:
            self._show(key, self._known[key])


def live_settings() -> dict[str, Fields]:
    """Return for each node the parameters that may change at runtime, with their defaults."""
    out: dict[str, Fields] = {}
    for node in graph.NODES:
        fields: Fields = {}
        for kind in node.settings_types():
            defaults = kind.defaults()
            fields |= {name: (defaults[name], spec) for name, spec in kind.specs().items() if spec.live}
        if fields:
            out[node.name] = fields
    return out
