"""`breakglass checkpoint finish`: finish a checkpoint whose worker has ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from breakglass.console.checkpoint_list import end_with
from breakglass.console.checkpoint_options import (
    CONTROL,
    DRAIN_MS,
    ControlTopic,
    Drain,
    Id,
    MaxRate,
    Node,
    Store,
    found_in,
    store_at,
)
from breakglass.console.checkpoint_take import copied, failure_printed, release
from breakglass.console.options import AsJson, Master, connected_for_writing
from breakglass.console.output import say
from breakglass.console.wiring import Connection

if TYPE_CHECKING:
    from breakglass.services.checkpoint.store.stored import StoredCheckpoint


@connected_for_writing
def finish(
    connection: Connection,
    id: Id,
    store: Store,
    drain: Drain = DRAIN_MS,
    max_rate: MaxRate = None,
    control_topic: ControlTopic = CONTROL,
    node: Node = 0,
    master: Master = "local[*,4]",
    as_json: AsJson = False,
) -> None:
    """Finish a checkpoint that was acknowledged and whose worker has ended.

    The same --node restarts its unfinished copies. Another node takes over: it copies the
    partitions whose owners have not reached the checkpoint. Of the other partitions, every copy
    that the old worker did not complete has failed; only a new checkpoint helps. A checkpoint that
    was never acknowledged is recorded as failed.

    With --write, the command also restores the retention of the topics on which `take
    --hold-retention` stopped it, whether or not the checkpoint completes.
    """
    from breakglass.services.checkpoint.kafka.owners import take_over
    from breakglass.services.checkpoint.kafka.topics import WantedCheckpoint
    from breakglass.services.checkpoint.parts import CopySettings, finisher_of
    from breakglass.services.errors import Refused
    from breakglass.services.extras import need

    need("pipeline")
    opened = store_at(store)
    found = found_in(opened, id)
    if found.take is None:
        raise Refused(f"checkpoint {id} was never asked for: take a new one.")
    take = found.take
    topics = tuple(sorted({partition.topic for partition in take.partitions}))
    wanted = WantedCheckpoint(take.level, topics, take.groups, control_topic)
    how = CopySettings(node=node, drain_seconds=drain / 1000, rate=max_rate or None, master=master)
    with (
        failure_printed(opened, take.request, take.level, as_json=as_json),
        releasing_at_the_end(connection, control_topic, take.request),
        connection.reading() as client,
        finisher_of(connection.access(), client, opened, wanted, how) as finisher,
    ):
        failed: tuple[int, ...] = ()
        if found.started is not None and _of_another(found, node):
            failed = take_over(client, opened, take, control_topic)
            say(f"node {node} takes over")
        if failed:
            say(f"{len(failed):,} partitions have failed by that: their owners are past it")
            done = found_in(opened, id)
        else:
            done = copied(finisher, id, control_topic)
    end_with(done, as_json=as_json)


def _of_another(found: StoredCheckpoint, node: int) -> bool:
    """Whether *node* has had nothing to do with the checkpoint so far."""
    nodes = {copy.id.node for part in found.partitions for copy in part.copies}
    return node not in nodes


@contextmanager
def releasing_at_the_end(
    connection: Connection, control_topic: str, request: str
) -> Iterator[None]:
    """At the end of the block, release what *request* held back; nothing without --write."""
    try:
        yield
    finally:
        if connection.write:
            release(connection, control_topic, request)
