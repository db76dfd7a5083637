"""`breakglass checkpoint serve`: checkpoints over HTTP and by a schedule, on this machine alone."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.backup_run import Master
from breakglass.console.checkpoint_options import (
    CONTROL,
    ControlTopic,
    Drain,
    Groups,
    MaxRate,
    Node,
    Store,
    Topics,
    all_in,
    store_at,
)
from breakglass.console.exits import write_traceback
from breakglass.console.option_values import duration_ms, names_in
from breakglass.console.options import connected_for_writing
from breakglass.console.output import say
from breakglass.console.wiring import Connection
from breakglass.services.checkpoint.option_text import bytes_per_second, policies
from breakglass.services.checkpoint.store.documents import Level

if TYPE_CHECKING:
    from breakglass.services.checkpoint.coordinator import Coordinator
    from breakglass.services.checkpoint.finishing import Finisher
    from breakglass.services.checkpoint.kafka.topics import WantedCheckpoint
    from breakglass.services.checkpoint.parts import CopySettings
    from breakglass.services.checkpoint.store.backup_store import BackupStore
    from breakglass.services.kafka.read_client import ReadClient

TOKEN = "BREAKGLASS_CHECKPOINT_TOKEN"  # noqa: S105 - the variable's name
SHORTEST = 16
PORT = 9600
"""Zeebe's port for its actuators."""


@connected_for_writing
def serve(
    connection: Connection,
    store: Store,
    topics: Topics,
    group: Groups = None,
    level: Annotated[
        Level, typer.Option(help="What is promised about consistency.")
    ] = Level.COORDINATED,
    every: Annotated[
        str | None,
        typer.Option(metavar="6h", help="Take one by itself so long after the last; off."),
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Keep the newest N completed checkpoints.")
    ] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Let go those that are older: 30d, 12h.")
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one.")] = PORT,
    drain: Drain = 60.0,
    max_rate: MaxRate = None,
    control_topic: ControlTopic = CONTROL,
    node: Node = 0,
    master: Master = "local[*,4]",
) -> None:
    """Serve checkpoints over HTTP, with the paths of Zeebe's /actuator/backups.

    It listens on this machine alone, and answers who brings the token, which is printed (or set
    in BREAKGLASS_CHECKPOINT_TOKEN). Without --write it takes and deletes none. After a restart it
    copies to its end what it had begun.
    """
    from breakglass.services.checkpoint.kafka.topics import WantedCheckpoint
    from breakglass.services.checkpoint.parts import CopySettings
    from breakglass.services.checkpoint.serving import Schedule, Serving
    from breakglass.services.checkpoint.store.retention import Retention
    from breakglass.services.errors import ReadOnly
    from breakglass.services.extras import need

    need("web")
    if connection.write:
        need("pipeline")
    schedule = Schedule(
        duration_ms(every, "--every"), Retention(keep, duration_ms(older_than, "--older-than"))
    )
    if not connection.write and schedule != Schedule():
        raise ReadOnly("a schedule takes and deletes checkpoints: add --write")
    names = names_in(topics)
    wanted = WantedCheckpoint(level, names, policies(group), control_topic)
    how = CopySettings(
        node=node, drain_seconds=drain, rate=bytes_per_second(max_rate), master=master
    )
    opened = store_at(store)
    if not connection.write:
        all_in(opened)
    token = _token()
    with (
        connection.reading() as client,
        coordinating(connection, client, opened, wanted, how) as (
            coordinator,
            finisher,
        ),
    ):
        _require_topics(client, wanted)
        serving = Serving(opened, coordinator, finisher, say, schedule, keep=write_traceback)
        from breakglass.console.web.checkpoint_server import serve_checkpoints

        serve_checkpoints(serving, token, port, writable=connection.write)


def _require_topics(client: ReadClient, wanted: WantedCheckpoint) -> None:
    """Return unless a topic is none; what the cluster does not answer now it may answer later.

    Raises:
        UsageError: a topic does not exist.
    """
    from breakglass.services.checkpoint.kafka.topics import KafkaTopics
    from breakglass.services.errors import Unreachable

    try:
        KafkaTopics(client, None, wanted).scope()
    except Unreachable as error:
        say(f"not known whether the topics are there: {error}")


def _token() -> str:
    from breakglass.services.errors import UsageError

    chosen = os.environ.pop(TOKEN, None)
    if chosen is not None and len(chosen) < SHORTEST:
        raise UsageError(f"{TOKEN} has {len(chosen)} characters, and needs {SHORTEST}.")
    if chosen is None:
        chosen = secrets.token_urlsafe(24)
        say(f"token: {chosen}")
    return chosen


@contextmanager
def coordinating(
    connection: Connection,
    client: ReadClient,
    store: BackupStore,
    wanted: WantedCheckpoint,
    how: CopySettings,
) -> Iterator[tuple[Coordinator, Finisher]]:
    """What takes checkpoints and what finishes them, until the end of the block."""
    from breakglass.services.checkpoint.parts import coordinator_of, finisher_of
    from breakglass.services.kafka.wire.deadline import Deadline

    with ExitStack() as stack:
        markers = None
        if connection.write and wanted.level is Level.COORDINATED:
            cluster_id = client.describe(Deadline.after(60.0)).cluster_id
            markers = stack.enter_context(
                connection.power("serving checkpoints").markers(cluster_id)
            )
        finisher = finisher_of(connection.access(), client, store, wanted, how)
        yield (
            coordinator_of(client, markers, store, wanted, how),
            stack.enter_context(finisher),
        )
