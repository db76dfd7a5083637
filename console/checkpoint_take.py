"""`breakglass checkpoint take`: start a checkpoint, and copy it beside the live traffic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from console.backup_run import Master
from console.checkpoint_list import end_with
from console.checkpoint_options import (
    CONTROL,
    AsJson,
    ControlTopic,
    Drain,
    Groups,
    MaxRate,
    Node,
    Store,
    store_at,
)
from console.option_values import names_in
from console.options import connected_for_writing
from console.output import say
from console.wiring import Connection
from services.checkpoint.asked import bytes_per_second, policies
from services.checkpoint.store.documents import Level

if TYPE_CHECKING:
    from services.checkpoint.coordinator import Coordinator
    from services.checkpoint.finishing import Finisher
    from services.checkpoint.kafka.topics import Wanted
    from services.checkpoint.parts import How
    from services.checkpoint.store.backup_store import BackupStore
    from services.kafka.read_client import ReadClient

DOING = "taking a checkpoint"
ASK_SECONDS = 60.0


@connected_for_writing
def take(
    connection: Connection,
    store: Store,
    topics: Annotated[
        str, typer.Option("--topics", metavar="A,B", help="Topics, with commas between.")
    ],
    group: Groups = None,
    level: Annotated[
        Level, typer.Option(help="What is promised about its consistency.")
    ] = Level.COORDINATED,
    id: Annotated[
        int | None, typer.Option("--id", min=1, help="Above all before it; by default the next.")
    ] = None,
    request: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Names this request: the same one again goes on."),
    ] = None,
    drain: Drain = 60.0,
    max_rate: MaxRate = None,
    control_topic: ControlTopic = CONTROL,
    node: Node = 0,
    master: Master = "local[*,4]",
    as_json: AsJson = False,
) -> None:
    """Take a checkpoint of topics and groups; producers and consumers go on meanwhile.

    coordinated: markers are written into every partition (needs --write), applications that use
    the participant cut their logs there. verified: the ends that are read are lowered until no
    record is without what led to it. vector: the ends as they are read; nothing is promised.
    Ends with 0 once every partition is copied; one that cannot be made consistent has failed, and
    says why.
    """
    from services.checkpoint.kafka.topics import Wanted
    from services.checkpoint.parts import How
    from services.checkpoint.protocol.coordinator import NotHigher
    from services.errors import Refused

    names = names_in(topics)
    wanted = Wanted(level, names, policies(group), control_topic)
    how = How(node=node, drain_seconds=drain, rate=bytes_per_second(max_rate), master=master)
    opened = store_at(store)
    if level is Level.COORDINATED:
        connection.require_write(DOING)
    with (
        connection.reading() as client,
        coordinating(connection, client, opened, wanted, how) as (
            coordinator,
            finisher,
        ),
    ):
        taken = coordinator.take(id, request)
        if isinstance(taken, NotHigher):
            raise Refused(taken.message)
        say(f"checkpoint {taken} is acknowledged: {level}, {len(wanted.groups)} groups")
        found = finisher.finish(taken, lambda number, status: say(f"partition {number}  {status}"))
    end_with(found, as_json=as_json)


@contextmanager
def coordinating(
    connection: Connection, client: ReadClient, store: BackupStore, wanted: Wanted, how: How
) -> Iterator[tuple[Coordinator, Finisher]]:
    """What takes checkpoints and what finishes them, until the end of the block."""
    from services.checkpoint.parts import coordinator_of, finisher_of
    from services.kafka.wire.deadline import Deadline

    with ExitStack() as stack:
        markers = None
        if connection.write and wanted.level is Level.COORDINATED:
            cluster_id = client.describe(Deadline.after(ASK_SECONDS)).cluster_id
            markers = stack.enter_context(connection.power(DOING).markers(cluster_id))
        finisher = finisher_of(connection.access(), client, store, wanted, how)
        yield (
            coordinator_of(client, markers, store, wanted, how),
            stack.enter_context(finisher),
        )
