"""`breakglass after internal-topics`: what internal topics lose, key by key (R17)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.commands import new_app
from breakglass.console.exits import FAILED, INTERRUPTED, StopSignal
from breakglass.console.options import (
    SECONDS,
    AsJson,
    GoneBrokers,
    Seconds,
    Sources,
    WhileRunning,
    connected,
)
from breakglass.console.output import columns, members, of_partition, print_json, print_table, say
from breakglass.console.wiring import Connection, deadline_after
from breakglass.services import patience
from breakglass.services.model import INTERNAL_TOPICS, Unknown

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.kafka.wire.deadline import Deadline
    from breakglass.services.model import PartitionState, TopicPartition
    from breakglass.services.recovery.internal_topics.finding import InternalLoss
    from breakglass.services.recovery.transactions.source import SourceLog

app = new_app()


@app.command("internal-topics")
@connected
def internal_topics(
    connection: Connection,
    source: Sources = None,
    while_running: WhileRunning = False,
    duration: Seconds = SECONDS,
    gone: GoneBrokers = (),
    everything: Annotated[
        bool, typer.Option("--all", help="Also show keys whose loss has no effect.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what an election costs internal topics: groups, transactional ids and more.

    Before an election, the log of the proposed replica is compared with all other replicas that
    answer. After an election, the log of the leader is compared with the log folder of a dead
    broker, or with a rescue. For each key that differs the command shows what is lost, what is
    left, and what follows. This command only reads. Exits with 1 if nothing is known of a
    partition, or if a source could not be compared as a whole.
    """
    from breakglass.services.recovery.internal_topics.finding import InternalSearch
    from breakglass.services.recovery.transactions.source import open_sources

    opened = open_sources(source or (), while_running=while_running)
    with StopSignal() as stop, connection.reading() as client:
        stop.armed()
        deadline = deadline_after(duration)
        chosen = _designees(client, deadline, gone)
        found = list(InternalSearch(opened, chosen, stop.go_on, deadline.remaining()).run(client))
        if stop.requested:
            raise typer.Exit(INTERRUPTED)
    if as_json:
        print_json({"schema": 1, "partitions": [_document(loss) for loss in found]})
    else:
        rows = list(_rows(found, everything=everything))
        if rows:
            print_table(COLUMNS, rows)
    _say(found, everything=everything)
    if not _whole(found, opened):
        raise typer.Exit(FAILED)


def _whole(found: Sequence[InternalLoss], sources: Sequence[SourceLog]) -> bool:
    """Whether each partition is judged, and each source was compared; says which was not."""
    internal = [one for one in sources if one.partition.topic in INTERNAL_TOPICS]
    unseen = {one.partition for one in internal} - {loss.partition for loss in found}
    for partition in sorted(unseen):
        say(f"{partition}  ? is in a source, and the cluster shows no such partition")
    if sources and not internal:
        say("? the sources have no partition of an internal topic")
    names = {source.name for source in sources}
    return (
        not unseen
        and bool(internal or not sources)
        and not any(
            isinstance(loss.kept, Unknown)
            or names & loss.unread.keys()
            or f"b{loss.kept}" in loss.unread
            or any(tail.unreadable or tail.not_understood for tail in loss.tails)
            for loss in found
        )
    )


def _designees(
    client: ReadClient, deadline: Deadline, gone: tuple[int, ...]
) -> Callable[[PartitionState], int | Unknown]:
    """Whom triage would elect for each internal partition that is offline.

    It has half of the time; the rest is for what the logs have.
    """
    from breakglass.console.evidence import final
    from breakglass.services.recovery.triage import triage

    snapshot = client.snapshot(deadline.sooner(patience.SNAPSHOT), with_settings=False)
    offline = {state.partition.topic for state in snapshot.offline} & set(INTERNAL_TOPICS)
    if not offline:
        return lambda _: Unknown("nobody leads it by now: look again")
    judged = final(triage(client, deadline.half().remaining(), topics=sorted(offline), gone=gone))

    def designee(state: PartitionState) -> int | Unknown:
        found = judged.assessment(state.partition)
        if found is None:
            return Unknown("it was not judged: look again")
        if found.designee is None:
            return Unknown(f"{found.verdict} {found.action}: nobody is proposed")
        return found.designee

    return designee


def _rows(found: Sequence[InternalLoss], *, everything: bool) -> Iterator[tuple[object, ...]]:
    from breakglass.services.recovery.internal_topics.finding import value_text

    for loss in found:
        for tail in loss.tails:
            for state in filter(lambda state: everything or not state.harmless, tail.states):
                yield (
                    loss.partition,
                    state.key.kind,
                    f"{state.key.name} on {state.key.place}" if state.key.place else state.key.name,
                    value_text(state.lost),
                    value_text(state.left),
                    state.meaning,
                )


def _say(found: Sequence[InternalLoss], *, everything: bool) -> None:
    from breakglass.console.plan_table import named
    from breakglass.services.recovery.internal_topics.finding import nothing_lost

    if not found:
        say("this cluster has no internal topics that this user may see")
        return
    for loss in found:
        if isinstance(loss.kept, Unknown):
            say(f"{loss.partition}  ? {loss.kept.reason}")
        for tail in loss.tails:
            harmless = sum(state.harmless for state in tail.states)
            hidden = f", {harmless:,} of them harmless" if harmless and not everything else ""
            say(
                f"{loss.partition}  {tail.source} has offsets {tail.start:,} to {tail.end - 1:,} "
                f"that b{tail.kept} has not: {len(tail.states):,} keys differ{hidden}"
            )
            for damage in tail.unreadable:
                say(
                    f"{loss.partition}  ? {tail.source}: offsets {damage.start:,} to "
                    f"{damage.end - 1:,} cannot be read: {damage.reason}"
                )
            if tail.not_understood:
                say(
                    f"{loss.partition}  ? {tail.not_understood:,} records are of a version that is "
                    "not known"
                )
    unread: dict[tuple[str, str, str], list[TopicPartition]] = {}
    for loss in found:
        for name, reason in sorted(loss.unread.items()):
            unread.setdefault((loss.partition.topic, name, reason), []).append(loss.partition)
    for (_, name, reason), partitions in unread.items():
        say(f"{named(partitions)}  ? {name} not compared: {reason}")
    conclusion = nothing_lost(found)
    if conclusion:
        say(conclusion)


def _document(one: InternalLoss) -> dict[str, Any]:
    return {
        **of_partition(one.partition),
        "leader": one.leader,
        "kept": one.kept,
        "compared": one.compared,
        "not_compared": one.unread,
        "lost": [
            {
                **members(tail, "source start end unreadable not_understood"),
                "keys": [
                    {
                        "kind": state.key.kind,
                        "name": state.key.name,
                        "place": state.key.place,
                        **members(state, "lost left back harmless meaning"),
                    }
                    for state in tail.states
                ],
            }
            for tail in one.tails
        ],
    }


COLUMNS = columns("Topic-partition", "What", "Key", "Lost", "Left", "What follows")
