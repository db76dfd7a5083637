"""`breakglass checkpoint take`: start a checkpoint, and copy it beside the live traffic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
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
    bytes_per_second,
    policies,
    store_at,
)
from console.option_values import names_in
from console.options import connected_for_writing
from console.output import say
from console.wiring import Connection
from services.checkpoint.store.documents import Level

if TYPE_CHECKING:
    from services.checkpoint.coordinator import Coordinator
    from services.checkpoint.finishing import Finisher
    from services.checkpoint.kafka.topics import Wanted
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


@dataclass(frozen=True, slots=True)
class How:
    """How checkpoints are taken and copied, as the options say."""

    node: int
    drain_seconds: float
    rate: float | None
    master: str


@contextmanager
def coordinating(
    connection: Connection, client: ReadClient, store: BackupStore, wanted: Wanted, how: How
) -> Iterator[tuple[Coordinator, Finisher]]:
    """What takes checkpoints and what finishes them, until the end of the block."""
    from services.checkpoint.coordinator import Coordinator
    from services.checkpoint.finishing import SIDE_BY_SIDE, Finisher
    from services.checkpoint.kafka.deciding import Decider
    from services.checkpoint.kafka.topics import KafkaTopics
    from services.checkpoint.spark.sources import KafkaSources
    from services.kafka.wire.deadline import Deadline
    from services.pipeline.kafka_options import java_properties
    from services.pipeline.running import BackupSettings, Meter, Run
    from services.pipeline.session import Spark
    from services.topic_backup.manifest import tool_version
    from services.topic_backup.store.store import open_store

    version = tool_version()
    with ExitStack() as stack:
        markers = None
        if connection.write and wanted.level is Level.COORDINATED:
            cluster_id = client.describe(Deadline.after(ASK_SECONDS)).cluster_id
            markers = stack.enter_context(connection.power(DOING).markers(cluster_id))
        spark = stack.enter_context(Spark(how.master))
        settings = BackupSettings(open_store(store.address), bytes_per_second=how.rate)
        properties = java_properties(connection.access().settings)
        run = Run(client, spark, properties, settings, Meter(lambda _: None))
        topics = KafkaTopics(client, markers, wanted)
        yield (
            Coordinator(store, topics, node=how.node, tool_version=version),
            Finisher(
                store,
                Decider(client, how.drain_seconds, control_topic=wanted.control_topic),
                KafkaSources(run, wanted.control_topic, version),
                how.node,
                version,
                # A rate is that of one copy.
                side_by_side=SIDE_BY_SIDE if how.rate is None else 1,
            ),
        )
