"""Definitions of the message types in bags: those of ROS, of the folder msg/, and of former versions of msg/."""

from __future__ import annotations

from functools import cache
from typing import Any

from rosbags.interfaces import Connection, MessageDefinitionFormat
from rosbags.serde import SerdeError
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.base import TypesysError
from rosbags.typesys.store import Typestore

from mm_ros.base.errors import MmRosError
from mm_ros.base.share import share_folder
from mm_ros.body.messages import PACKAGE
from mm_ros.sessions.versions import VERSION, former


@cache
def typestore(version: int = VERSION) -> Typestore:
    """Return a type store of rosbags with the message definitions of mm_ros in the given version."""
    store = get_typestore(Stores.ROS2_JAZZY)
    for path in sorted((share_folder() / "msg").glob("*.msg")):
        kind = PACKAGE + path.stem
        row = former(kind, version)
        store.register(get_types_from_msg(row.definition if row else path.read_text(), kind))
    return store


def version_of(connection: Connection, where: str) -> int:
    """Return the version of the message definition of one topic in a bag. A topic without definition is assumed to have
    the present version. Raise MmRosError if a definition in the bag belongs to no known version."""
    kind, definition = connection.msgtype, connection.msgdef
    if not kind.startswith(PACKAGE) or definition.format != MessageDefinitionFormat.MSG:
        return VERSION
    known = typestore().fielddefs
    if kind not in known:
        types = ", ".join(sorted(t for t in known if t.startswith(PACKAGE)))
        raise MmRosError(f"{where}: message type '{kind}' does not exist. Types: {types}")
    try:
        recorded = {t: fields for t, (_, fields) in get_types_from_msg(definition.data, kind).items()}
    except (TypesysError, LookupError, ValueError, RecursionError) as error:
        raise MmRosError(f"{where}: the definition of {kind} in it is broken ({str(error)[:200]})") from error
    ours = [t for t in recorded if t.startswith(PACKAGE)]
    for version in range(VERSION, 0, -1):
        then = typestore(version).fielddefs
        if all(t in then and recorded[t] == then[t][1] for t in ours):
            return version
    theirs, here = ([name for name, _ in fields] for fields in (recorded[kind], known[kind][1]))
    raise MmRosError(
        f"{where}: {kind} was recorded by an unknown version of mm_ros. "
        f"Fields there: {', '.join(theirs)}; here: {', '.join(here)}"
    )


def todays(data: bytes, kind: str, version: int) -> bytes:
    """Convert a serialized message of mm_ros from the definition of version `version` to the present one."""
    try:
        message = typestore(version).deserialize_cdr(data, kind)
    except SerdeError as error:
        raise MmRosError(f"a message of type {kind} is broken: {error}") from error
    return bytes(typestore().serialize_cdr(_todays(message, version), kind))


def _todays(value: Any, version: int) -> Any:
    if isinstance(value, list):
        return [_todays(v, version) for v in value]
    kind = getattr(value, "__msgtype__", "")
    if not kind.startswith(PACKAGE):
        return value
    row = former(kind, version)
    changed = row.change(value) if row else {}
    names = [name for name, _ in typestore().fielddefs[kind][1]]
    kept = {name: _todays(getattr(value, name), version) for name in names if name not in changed}
    return typestore().types[kind](**kept, **changed)
