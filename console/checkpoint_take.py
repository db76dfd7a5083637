"""`breakglass checkpoint take`: start a checkpoint, and copy it beside the live traffic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from breakglass.console.backup_run import Master
from breakglass.console.checkpoint_copying import copied, failure_printed
from breakglass.console.checkpoint_list import end_with
from breakglass.console.checkpoint_options import (
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
from breakglass.console.consent import Consent, Phrases
from breakglass.console.guarded import GuardedCommand, say_event
from breakglass.console.option_values import names_in
from breakglass.console.options import AsJson, connected_for_writing
from breakglass.console.output import say
from breakglass.console.wiring import Connection
from breakglass.services.checkpoint.option_text import TakeAsked, bytes_per_second, policies
from breakglass.services.checkpoint.protocol.values import LARGEST_ASKED
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.guard.act import JournalOpened

if TYPE_CHECKING:
    from breakglass.services.checkpoint.acts.take import TakeCheckpoint
    from breakglass.services.checkpoint.finishing import Finisher
    from breakglass.services.guard.act import ActEvent, Tell
    from breakglass.services.kafka.read_client import ReadClient


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
            "--id",
            min=1,
            max=LARGEST_ASKED,
            help="Checkpoint id; greater than all earlier ids (default: the next).",
        ),
    ] = None,
    request: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Idempotency key; repeat it to resume this request."),
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
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Take a checkpoint of topics and groups; producers and consumers keep running.

    coordinated: markers are written into every partition (needs --write), applications that use
    the participant cut their logs there. verified: the ends that are read are lowered until no
    record is without what led to it. vector: the ends as they are read; nothing is promised.
    Ends with 0 once every partition is copied; one that cannot be made consistent has failed, and
    says why. A compacted topic takes --hold-retention, or vector.
    """
    from breakglass.services.checkpoint.acts.take import TakeCheckpoint
    from breakglass.services.checkpoint.parts import CopySettings
    from breakglass.services.extras import need

    need("pipeline")
    rate = bytes_per_second(max_rate)
    asked = TakeAsked(names_in(topics), policies(group), level, rate, drain, control_topic)
    opened = store_at(store)
    act = TakeCheckpoint(
        opened,
        asked,
        CopySettings(node=node, drain_seconds=drain, rate=rate, master=master),
        id,
        request or uuid4().hex,
        repeatable=request is not None,
        hold_retention=hold_retention,
    )
    marking = level is Level.COORDINATED or hold_retention
    # Without markers the cluster is only read, and the store gets something more.
    word = Consent(tuple(consent or ()), implied=not marking)
    held_for = act.request if hold_retention else ""
    with (
        failure_printed(opened, act.request, level, as_json=as_json),
        releasing(connection, control_topic, held_for) as hear,
    ):
        if marking:
            connection.require_write(act.doing)
        command = GuardedCommand(act, word, connection, hear=hear)
        frozen = command.freeze()
        ending = command.carry_out(frozen, reads_only=not marking)
        say(f"checkpoint {ending.value} is acknowledged: {level}, {len(asked.groups)} groups")
        with connection.reading() as client, finishing(connection, client, act) as finisher:
            found = copied(finisher, ending.value, control_topic)
    end_with(found, as_json=as_json)


@contextmanager
def releasing(connection: Connection, control_topic: str, request: str) -> Iterator[Tell]:
    """Hears a take; at the end of the block topics get the retention that *request* held back.

    A take that never began has held nothing back.
    """
    began: list[ActEvent] = []

    def hear(event: ActEvent) -> None:
        if isinstance(event, JournalOpened):
            began.append(event)
        say_event(event)

    try:
        yield hear
    finally:
        if request and began:
            release(connection, control_topic, request)


def release(connection: Connection, control_topic: str, request: str) -> None:
    """Give topics the retention again that *request* held back: its consent included that."""
    from breakglass.services.checkpoint.acts.take import ReleaseRetention

    act = ReleaseRetention(control_topic, request)
    command = GuardedCommand(act, Consent(implied=True), connection)
    command.carry_out(command.freeze(), write=True)


@contextmanager
def finishing(
    connection: Connection, client: ReadClient, act: TakeCheckpoint
) -> Iterator[Finisher]:
    """What copies checkpoints, until the end of the block."""
    from breakglass.services.checkpoint.parts import finisher_of

    with finisher_of(connection.access(), client, act.store, act.wanted, act.how) as finisher:
        yield finisher
