"""`breakglass checkpoint finish`: go on with a checkpoint whose worker is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from breakglass.console.backup_run import Master
from breakglass.console.checkpoint_copying import copied, failure_printed
from breakglass.console.checkpoint_list import end_with
from breakglass.console.checkpoint_options import (
    CONTROL,
    ControlTopic,
    Drain,
    Id,
    MaxRate,
    Node,
    Store,
    found_in,
    store_at,
)
from breakglass.console.checkpoint_take import release
from breakglass.console.options import AsJson, connected_for_writing
from breakglass.console.output import say
from breakglass.console.wiring import Connection
from breakglass.services.checkpoint.option_text import bytes_per_second

if TYPE_CHECKING:
    from breakglass.services.checkpoint.store.stored import StoredCheckpoint


@connected_for_writing
def finish(
    connection: Connection,
    id: Id,
    store: Store,
    drain: Drain = 60.0,
    max_rate: MaxRate = None,
    control_topic: ControlTopic = CONTROL,
    node: Node = 0,
    master: Master = "local[*,4]",
    as_json: AsJson = False,
) -> None:
    """Finish a checkpoint that was acknowledged and whose worker is gone.

    The same --node restarts its unfinished copies. Another one takes over: it copies the
    partitions whose owners have not come to the checkpoint yet; of the others, what the old worker
    did not complete has failed, and nothing makes up for that but a new checkpoint. One that was
    never acknowledged has failed, and is recorded so. With --write
    it also gives topics their retention again that `take --hold-retention` has left held back,
    whatever became of the checkpoint.
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
    topics = tuple(sorted({one.topic for one in take.partitions}))
    wanted = WantedCheckpoint(take.level, topics, take.groups, control_topic)
    how = CopySettings(
        node=node, drain_seconds=drain, rate=bytes_per_second(max_rate), master=master
    )
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
    nodes = {copy.id.node for one in found.partitions for copy in one.copies}
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
