"""Stores consumer groups' offsets: the latest in Kafka Backup's file, with a history beside it.

Each change is a separate small file, so that an object store needs no append and an older state
can be restored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from breakglass.services.clock import now_ms
from breakglass.services.errors import MalformedInput
from breakglass.services.topic_backup import consumer_offsets
from breakglass.services.topic_backup.folder import Folder, read_whole
from breakglass.services.topic_backup.layout import consumer_offsets_name

PREFIX = "breakglass_groups_"
MOST_BYTES = 256 * 1024 * 1024
KEPT = 1000
"""How many states of one topic are kept; older states are removed."""

GroupsByPartition = Mapping[int, Mapping[str, int]]
"""Committed offset by partition and group."""

_NAME = re.compile(rf"{PREFIX}([0-9]{{13,19}})\.json", re.ASCII)


def times(names: list[str]) -> list[int]:
    """The times of the states among *names*, in ms, oldest first."""
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def read_state(folder: Folder, at_ms: int) -> dict[int, dict[str, int]]:
    """The state that was saved at *at_ms*.

    Raises:
        MalformedInput: the file is not a state.
    """
    name = _name(at_ms)
    content = read_whole(folder, name, MOST_BYTES)
    try:
        found = json.loads(content)
        return {
            int(number): {str(group): int(offset) for group, offset in groups.items()}
            for number, groups in found["partitions"].items()
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise MalformedInput(
            f"{folder.where(name)}: no offsets of groups ({error}); remove it to do without."
        ) from None


def update(folder: Folder, offsets: GroupsByPartition, at_ms: int | None = None) -> bool:
    """Write *offsets* if they differ from the last state; return whether they did.

    A partition on which no group has committed gets a file without groups: Kafka Backup's source
    task fails at the first record of a partition that has no file (OffsetSource.java).
    """
    names = folder.names()
    for number in offsets:
        if consumer_offsets_name(number) not in names:
            consumer_offsets.update(folder, number, {})
    taken = times(names)
    wanted = {number: dict(groups) for number, groups in sorted(offsets.items()) if groups}
    if (read_state(folder, taken[-1]) if taken else {}) == wanted:
        return False
    at_ms = max(at_ms or now_ms(), taken[-1] + 1 if taken else 0)
    for number, groups in wanted.items():
        consumer_offsets.update(folder, number, groups)
    # The state is written last: its presence means that Kafka Backup's files are written.
    document = {"schema": 1, "at_ms": at_ms, "partitions": wanted}
    folder.replace(_name(at_ms), [json.dumps(document).encode(), b"\n"])
    for old in taken[: max(0, len(taken) + 1 - KEPT)]:
        folder.remove(_name(old))
    return True


def _name(at_ms: int) -> str:
    return f"{PREFIX}{at_ms:013d}.json"
