"""Message definitions for bags: ROS's own, and ours from msg/, without ROS."""

from __future__ import annotations

from functools import cache

from rosbags.interfaces import Connection, MessageDefinitionFormat
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.base import TypesysError
from rosbags.typesys.store import Typestore

from mm_ros.core.errors import MmRosError
from mm_ros.share import share_folder

PACKAGE = "mm_ros/msg/"


@cache
def typestore() -> Typestore:
    store = get_typestore(Stores.ROS2_JAZZY)
    for path in sorted((share_folder() / "msg").glob("*.msg")):
        store.register(get_types_from_msg(path.read_text(), PACKAGE + path.stem))
    return store


def check_definition(connection: Connection, where: str) -> None:
    """Refuses a message of ours that was recorded with other fields; a bag without definitions is taken as it is."""
    kind, definition = connection.msgtype, connection.msgdef
    if not kind.startswith(PACKAGE) or definition.format != MessageDefinitionFormat.MSG:
        return
    store = typestore()
    if kind not in store.fielddefs:
        known = ", ".join(sorted(t for t in store.fielddefs if t.startswith(PACKAGE)))
        raise MmRosError(f"{where}: message type '{kind}' does not exist. Types: {known}")
    try:
        recorded = get_types_from_msg(definition.data, kind)[kind][1]
    except (TypesysError, LookupError, ValueError, RecursionError) as error:
        raise MmRosError(f"{where}: the definition of {kind} in it is broken ({str(error)[:200]})") from error
    ours = store.fielddefs[kind][1]
    if recorded != ours:
        theirs, here = ([name for name, _ in fields] for fields in (recorded, ours))
        raise MmRosError(
            f"{where}: {kind} was recorded by another version of mm_ros. Fields there: {', '.join(theirs)}; "
            f"here: {', '.join(here)}"
        )
