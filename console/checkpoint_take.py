"""`breakglass checkpoint take`: start a checkpoint, and copy it beside the live traffic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from console.backup_run import Master
from console.checkpoint_copying import copied, failure_printed
from console.checkpoint_list import end_with
from console.checkpoint_options import (
    CONTROL,
    ControlTopic,
    Drain,
    Groups,
    MaxRate,
    Node,
    Store,
    Topics,
    store_at,
)
from console.option_values import names_in
from console.options import AsJson, connected_for_writing
from console.output import say
from console.wiring import Connection
from services.checkpoint.option_text import bytes_per_second, policies
from services.checkpoint.protocol.values import LARGEST_ASKED
from services.checkpoint.store.documents import Level

if TYPE_CHECKING:
    from services.checkpoint.coordinator import Coordinator
    from services.checkpoint.finishing import Finisher
    from services.checkpoint.kafka.holding import RetentionHolder
    from services.checkpoint.kafka.topics import WantedCheckpoint
    from services.checkpoint.parts import CopySettings
    from services.checkpoint.store.backup_store import BackupStore
    from services.kafka.read_client import ReadClient

DOING = "taking a checkpoint"
ASK_SECONDS = 60.0


@connected_for_writing
def take(
    connection: Connection,
    store: Store,
    topics: Topics,
    group: Groups = None,
    level: Annotated[
        Level, typer.Option(help="What is promised about its consistency.")
    ] = Level.COORDINATED,
    id: Annotated[
        int | None,
        typer.Option(
            "--id", min=1, max=LARGEST_ASKED, help="Above all before it; by default the next."
        ),
    ] = None,
    request: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Names this request: the same one again goes on."),
    ] = None,
    drain: Drain = 60.0,
    max_rate: MaxRate = None,
    hold_retention: Annotated[
        bool,
        typer.Option(
            "--hold-retention",
            help="Let the topics keep everything until it is copied; needs --write.",
        ),
    ] = False,
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
    says why. A compacted topic takes --hold-retention, or vector.
    """
    from services.checkpoint.failure_text import not_higher
    from services.checkpoint.kafka.topics import WantedCheckpoint
    from services.checkpoint.parts import CopySettings
    from services.checkpoint.protocol.coordinator import NotHigher
    from services.errors import Refused
    from services.extras import need

    need("pipeline")
    names = names_in(topics)
    wanted = WantedCheckpoint(level, names, policies(group), control_topic)
    how = CopySettings(
        node=node, drain_seconds=drain, rate=bytes_per_second(max_rate), master=master
    )
    opened = store_at(store)
    anew = request is None
    request = request or uuid4().hex
    with (
        failure_printed(opened, request, level, as_json=as_json),
        _armed(connection, marking=level is Level.COORDINATED or hold_retention),
        connection.reading() as client,
        holding(connection, client, wanted, request if hold_retention else ""),
        coordinating(connection, client, opened, wanted, how) as (
            coordinator,
            finisher,
        ),
    ):
        taken = coordinator.take(id, request, anew=anew)
        if isinstance(taken, NotHigher):
            raise Refused(not_higher(taken))
        say(f"checkpoint {taken} is acknowledged: {level}, {len(wanted.groups)} groups")
        found = copied(finisher, taken, control_topic)
    end_with(found, as_json=as_json)


@contextmanager
def _armed(connection: Connection, *, marking: bool) -> Iterator[None]:
    """Go on where nothing is to be changed, or --write is given. Raises ReadOnly."""
    if marking:
        connection.require_write(DOING)
    yield


@contextmanager
def holding(
    connection: Connection, client: ReadClient, wanted: WantedCheckpoint, request: str
) -> Iterator[None]:
    """Hold the retention of the topics back in the name of *request*; nothing without one."""
    if not request:
        yield
        return
    with holder(connection, client, wanted.control_topic, request) as found:
        try:
            found.hold(wanted.topics)
            say(f"retention is held back: {', '.join(wanted.topics)}")
            yield
        finally:
            say_released(found)


@contextmanager
def holder(
    connection: Connection, client: ReadClient, control_topic: str, request: str
) -> Iterator[RetentionHolder]:
    """What holds retention back and lets it go, until the end of the block."""
    from services.checkpoint.kafka.holding import RetentionHolder
    from services.kafka.wire.deadline import Deadline

    cluster_id = client.describe(Deadline.after(ASK_SECONDS)).cluster_id
    with connection.power(DOING).markers(cluster_id, holding=True) as markers:
        yield RetentionHolder(client, markers, control_topic, request)


def say_released(found: RetentionHolder) -> None:
    """Let go what is held, and say of what topics."""
    for topic in found.release():
        say(f"topic {topic} has its own retention again")


@contextmanager
def coordinating(
    connection: Connection,
    client: ReadClient,
    store: BackupStore,
    wanted: WantedCheckpoint,
    how: CopySettings,
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
