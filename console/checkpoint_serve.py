"""`breakglass checkpoint serve`: checkpoints over HTTP and by a schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.checkpoint_options import (
    CONTROL,
    DRAIN_MS,
    CheckpointTopics,
    ChosenLevel,
    ControlTopic,
    Drain,
    External,
    Flows,
    Groups,
    MaxRate,
    Node,
    Store,
    all_in,
    store_at,
)
from breakglass.console.checkpoint_take import chosen_level, release, take_asked
from breakglass.console.consent import Consent
from breakglass.console.exits import write_traceback
from breakglass.console.guarded import GuardedCommand
from breakglass.console.options import (
    Host,
    ListenPort,
    Master,
    OlderThan,
    TlsCertificate,
    TlsKey,
    TokenFile,
    connected_for_writing,
    duration,
    with_log_format,
)
from breakglass.console.output import say
from breakglass.console.wiring import Connection
from breakglass.services import patience
from breakglass.services.checkpoint.serving import SameId, StopRequest
from breakglass.services.checkpoint.store.documents import Level

if TYPE_CHECKING:
    from breakglass.services.checkpoint.acts.hold import ServedHolds
    from breakglass.services.checkpoint.coordinator import Coordinator, Finisher
    from breakglass.services.checkpoint.kafka.topics import WantedCheckpoint
    from breakglass.services.checkpoint.parts import CopySettings
    from breakglass.services.checkpoint.store.backup_store import BackupStore
    from breakglass.services.kafka.read_client import ReadClient

TOKEN = "BREAKGLASS_CHECKPOINT_TOKEN"  # noqa: S105 - the variable's name
PORT = 9600
"""Zeebe's port for its actuators."""


@with_log_format
@connected_for_writing
def serve(
    connection: Connection,
    store: Store,
    topics: CheckpointTopics,
    group: Groups = None,
    level: ChosenLevel = None,
    external: External = None,
    flow: Flows = None,
    every: Annotated[
        int | None,
        duration(
            "--every",
            example="6h",
            help="Take a checkpoint this long after the last (default: only on request).",
            shown="",
        ),
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Keep the newest N completed checkpoints.")
    ] = None,
    older_than: OlderThan = None,
    same_id: Annotated[
        SameId,
        typer.Option(
            "--same-id",
            help="Answer to a second request for an id: refused as by Zeebe, or acknowledged.",
        ),
    ] = SameId.REFUSED,
    host: Host = "127.0.0.1",
    port: ListenPort = PORT,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    token_file: TokenFile = None,
    drain: Drain = DRAIN_MS,
    max_rate: MaxRate = None,
    hold_retention: Annotated[
        bool,
        typer.Option(
            "--hold-retention",
            help="Stop the topics' retention until each checkpoint is copied; needs --write.",
        ),
    ] = False,
    control_topic: ControlTopic = CONTROL,
    node: Node = 0,
    master: Master = "local[*,4]",
) -> None:
    """Serve checkpoints over HTTP, with the paths of Zeebe's /actuator/backups.

    The server listens on this machine only, unless --host and a certificate are given. A client
    needs the token, which is printed unless --token-file or BREAKGLASS_CHECKPOINT_TOKEN sets it.
    Without --level, the strongest promise that holds when the server starts is chosen, as by
    `checkpoint take`. Without --write, the server takes and deletes no checkpoint. A signal ends it
    once requests and partitions under way are done; after a restart, it completes the copies that
    it had begun.
    """
    from breakglass.services.checkpoint.parts import CopySettings
    from breakglass.services.checkpoint.serving import Schedule, Serving
    from breakglass.services.checkpoint.store.backup_store import Retention
    from breakglass.services.errors import ReadOnly
    from breakglass.services.extras import need

    need("web")
    from breakglass.console.web.bearer import token_of
    from breakglass.console.web.checkpoint_server import serve_checkpoints
    from breakglass.console.web.listener import HttpListener

    if connection.write:
        need("pipeline")
    schedule = Schedule(every, Retention(keep, older_than))
    if not connection.write and schedule != Schedule():
        raise ReadOnly("a schedule takes and deletes checkpoints: add --write")
    if not connection.write and hold_retention:
        raise ReadOnly("--hold-retention changes topics' settings: add --write")
    listener = HttpListener.at(host, port, tls_certificate, tls_key)
    asked = take_asked(topics, group, level, max_rate, drain, control_topic, external, flow)
    promised = asked.level
    if promised is None and connection.write:
        promised = chosen_level(connection, asked, hold_retention)
    # A server that takes nothing needs no promise.
    wanted = asked.wanted(promised or Level.VECTOR)
    wanted.require_coherent()
    how = CopySettings(node=node, drain_seconds=drain / 1000, rate=max_rate or None, master=master)
    opened = store_at(store)
    if not connection.write:
        _require_store(opened)
    token = token_of(TOKEN, token_file)
    with (
        connection.reading() as client,
        serving_parts(connection, client, opened, wanted, how, hold=hold_retention) as parts,
    ):
        _require_topics(client, wanted)
        serving = Serving(
            opened,
            parts.coordinator,
            parts.finisher,
            say,
            schedule,
            keep=write_traceback,
            same_id=same_id,
            stop=parts.stop,
            release=parts.release,
        )
        serve_checkpoints(serving, token, listener, writable=connection.write)


def _require_store(store: BackupStore) -> None:
    """Return unless there is no such store; one that does not answer now may answer later.

    Raises:
        UsageError: there is none.
    """
    from breakglass.services.errors import StorageError

    try:
        all_in(store)
    except StorageError as error:
        say(f"not known whether the store is there: {error}")


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


@dataclass(frozen=True, slots=True)
class ServingParts:
    """What takes checkpoints, what finishes them, and what ends both."""

    coordinator: Coordinator
    finisher: Finisher
    stop: StopRequest
    release: Callable[[], None]
    """Gives topics the retention again that was held back for checkpoints that have ended."""


@contextmanager
def serving_parts(
    connection: Connection,
    client: ReadClient,
    store: BackupStore,
    wanted: WantedCheckpoint,
    how: CopySettings,
    *,
    hold: bool,
) -> Iterator[ServingParts]:
    """The parts of a server, until the end of the block; *hold*: it holds retention back."""
    from breakglass.services.checkpoint.parts import coordinator_of, finisher_of
    from breakglass.services.kafka.wire.deadline import Deadline

    with ExitStack() as stack:
        markers, holds = None, None
        if connection.write and wanted.level is Level.COORDINATED:
            cluster_id = client.describe(Deadline.after(patience.JOB)).cluster_id
            markers = stack.enter_context(
                connection.power("serving checkpoints").markers(cluster_id)
            )
        if hold:
            holds = _holds(connection, client, store, wanted)
        stop = StopRequest()
        finisher = finisher_of(connection.access(), client, store, wanted, how, stop.wait)
        prepare = holds.hold if holds else lambda _: None
        yield ServingParts(
            coordinator_of(client, markers, store, wanted, how, prepare),
            stack.enter_context(finisher),
            stop,
            holds.release_ended if holds else lambda: None,
        )


def _holds(
    connection: Connection, client: ReadClient, store: BackupStore, wanted: WantedCheckpoint
) -> ServedHolds:
    """Holds that are made and released under guard; the server's options are the consent."""
    from breakglass.services.checkpoint.acts.hold import HoldRetention, ServedHolds
    from breakglass.services.checkpoint.kafka.logs import read_control
    from breakglass.services.kafka.wire.deadline import Deadline

    topic = wanted.control_topic

    def suspend(request: str) -> None:
        act = HoldRetention(wanted.topics, topic, request)
        command = GuardedCommand(act, Consent(implied=True), connection)
        command.carry_out(command.freeze(), write=True)

    def held() -> set[str]:
        control = read_control(client, topic, Deadline.after(patience.JOB))
        return set() if control is None else {hold.request for hold in control.held.values()}

    return ServedHolds(store, suspend, partial(release, connection, topic), held)
