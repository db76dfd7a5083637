"""The command `breakglass checkpoint`: consistent checkpoints of topics and groups (ZEP-008).

`explain` tells which promise holds. `verify` asks no broker; `prune` is under guard, because
nothing brings them back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.checkpoint_list import end_with, list_all, show, verification
from breakglass.console.checkpoint_options import (
    CONTROL,
    DRAIN_MS,
    CheckpointTopics,
    ChosenLevel,
    ControlTopic,
    Drain,
    ExplainedTopics,
    External,
    Flows,
    Groups,
    HoldRetention,
    Id,
    MaxRate,
    Node,
    Store,
    all_in,
    found_in,
    store_at,
)
from breakglass.console.checkpoint_restore import restore_checkpoint
from breakglass.console.checkpoint_take import (
    chosen_level,
    copied,
    copy_settings,
    failure_printed,
    release,
    take,
    wanted_checkpoint,
)
from breakglass.console.commands import new_app
from breakglass.console.exits import write_traceback
from breakglass.console.guarded import GuardedCommand
from breakglass.console.option_values import Consent
from breakglass.console.options import (
    PLACE,
    AsJson,
    Host,
    ListenPort,
    Master,
    OldDelete,
    OlderThan,
    Phrases,
    TlsCertificate,
    TlsKey,
    TokenFile,
    Write,
    connected,
    connected_for_writing,
    duration,
    with_groups,
    with_log_format,
)
from breakglass.console.output import Column, print_json, print_lines, print_table, say
from breakglass.console.wiring import Connection
from breakglass.services import patience
from breakglass.services.checkpoint.acts.delete import DeleteCheckpoint, DeleteExpired, listed
from breakglass.services.checkpoint.promises import CopySettings, Explanation, WantedCheckpoint
from breakglass.services.checkpoint.serving import SameId, Schedule, Serving, StopRequest
from breakglass.services.checkpoint.store.backup_store import BackupStore, Retention
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.checkpoint.wording import (
    NOT_PROVED,
    PROMISES,
    explained,
    level_words,
    promise,
)
from breakglass.services.checkpoint.wording import explain as explain_now
from breakglass.services.errors import ReadOnly, Refused, StorageError, Unreachable, UsageError
from breakglass.services.extras import need

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient


@connected
def explain(
    connection: Connection,
    id: Annotated[
        int | None, typer.Argument(min=1, metavar="ID", help="Id of a stored checkpoint.")
    ] = None,
    store: Annotated[str | None, typer.Option("--store", metavar="URL", help=PLACE)] = None,
    topics: ExplainedTopics = None,
    group: Groups = None,
    external: External = None,
    flow: Flows = None,
    hold_retention: HoldRetention = False,
    control_topic: ControlTopic = CONTROL,
    as_json: AsJson = False,
) -> None:
    """Explain which promise a checkpoint can keep, and what is missing for a better one.

    For each topic, the last part of its logs shows who writes it: applications that use the
    participant, transactions, idempotent producers, or unknown writers. For each group on the
    topics, the command shows how the group commits. Nothing is written and nothing is copied. With
    ID and --store, the command explains a stored checkpoint from what was read when the checkpoint
    was taken; no broker is asked.
    """
    if id is not None:
        if store is None or topics:
            raise UsageError("Give --store with the ID of a checkpoint, and no --topics.")
        _explain_stored(store, id, as_json=as_json)
        return
    if store is not None or not topics:
        raise UsageError("Give --topics A,B, or the ID of a checkpoint with --store.")
    how = CopySettings(control_topic=control_topic)
    wanted = wanted_checkpoint(topics, group, None, external, flow, how, hold_retention)
    with connection.reading() as client:
        found = explain_now(client, wanted)
    if as_json:
        print_json({"schema": 1, **explanation_document(found)})
        return
    level = found.strongest
    if level is None:
        print_lines(["no promise holds: --level vector takes the checkpoint without a promise"])
    else:
        print_lines([f"strongest promise that holds: {PROMISES[level]}"])
    _print(found)


def _explain_stored(store: str, id: int, *, as_json: bool) -> None:
    stored = found_in(store_at(store), id)
    found, level = explained(stored), stored.level
    if as_json:
        told = {"id": id, "level": level, "state": stored.status, "promise": promise(stored)}
        empty = dict.fromkeys(("topics", "groups", "levels", "strongest", "flows"))
        why = empty if found is None else explanation_document(found)
        print_json({"schema": 1, **told, **why})
        return
    print_lines([f"checkpoint {id}  {level or '?'}  {stored.status}", promise(stored)])
    if found is None:
        print_lines(["? who writes its topics: that was not read when it was taken"])
    else:
        _print(found, level)


def _print(found: Explanation, promised: Level | None = None) -> None:
    print_table(
        TOPICS,
        [
            (
                row["topic"],
                f"{row['partitions']:,}",
                ", ".join(row["writers"]) or "?",
                f"{row['records_looked_at']:,}",
                ", ".join(word for word in ("external", "compacted") if row[word]),
            )
            for row in _topics(found)
        ],
    )
    if found.evidence.groups:
        print_table(
            GROUPS,
            [
                (
                    row["group"],
                    row["policy"] or "not named",
                    row["kind"],
                    row["state"],
                    ", ".join(row["reads"]),
                    row["commits"],
                )
                for row in _groups(found)
            ],
        )
    print_lines(level_words(found, promised))
    if promised is None and found.flows and not found.wanted.flows:
        print_lines(f"flow to confirm: --flow '{flow}'" for flow in found.flows)


def explanation_document(found: Explanation) -> dict[str, Any]:
    """An explanation as --json has it."""
    return {
        "strongest": found.strongest,
        "topics": list(_topics(found)),
        "groups": list(_groups(found)),
        "levels": [
            {"level": outlook.level, "possible": outlook.holds, "missing": list(outlook.missing)}
            for outlook in found.levels
        ],
        "flows": list(found.flows),
        "flows_confirmed": bool(found.wanted.flows),
    }


def _topics(found: Explanation) -> Iterator[Mapping[str, Any]]:
    for topic in found.evidence.topics:
        yield {
            "topic": topic.topic,
            "partitions": topic.partitions,
            "writers": list(topic.writers),
            "records_looked_at": topic.records,
            "external": topic.topic in found.wanted.external,
            "compacted": topic.compacted,
        }


def _groups(found: Explanation) -> Iterator[Mapping[str, Any]]:
    for group in found.evidence.groups:
        yield {
            "group": group.name,
            "kind": group.kind,
            "state": group.state,
            "reads": list(group.reads),
            "writes": list(group.writes),
            "commits": group.commits,
            "policy": found.wanted.groups.get(group.name),
        }


TOPICS = (
    Column("Topic"),
    Column("Partitions", right=True),
    Column("Written by"),
    Column("Looked at", right=True),
    Column("Declared"),
)
GROUPS = (
    Column("Group"),
    Column("Policy"),
    Column("Kind"),
    Column("State"),
    Column("Reads"),
    Column("Commits"),
)


TOKEN = "BREAKGLASS_CHECKPOINT_TOKEN"  # noqa: S105 - the variable's name
PORT = 9600
"""Zeebe's port for its actuators."""


def _limits(
    keep: Annotated[int | None, typer.Option(min=1, help="Keep the newest N.")] = None,
    older_than: OlderThan = None,
) -> Retention:
    return Retention(keep, older_than)


Limits = Annotated[Retention, _limits]
NO_LIMITS = Retention()


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
            help="Time from one run to the next.",
            shown="",
        ),
    ] = None,
    limits: Limits = NO_LIMITS,
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
    hold_retention: HoldRetention = False,
    control_topic: ControlTopic = CONTROL,
    node: Node = 0,
    master: Master = "local[*,4]",
) -> None:
    """Serve checkpoints over HTTP, with the paths of Zeebe's /actuator/backups.

    The server listens on this machine only, unless --host and a certificate are given. A client
    needs the token, which is printed unless --token-file or BREAKGLASS_CHECKPOINT_TOKEN sets it.
    Without --level, the strongest promise that holds when the server starts is chosen, as by
    `checkpoint take`. Without --every, it takes checkpoints only on request; without --write, it
    takes and deletes none. A signal ends it once requests and partitions under way are done; after
    a restart, it completes the copies that it had begun.
    """
    from breakglass.services.checkpoint.kafka.topics import KafkaTopics
    from breakglass.services.checkpoint.parts import coordinator_of, finisher_of
    from breakglass.services.kafka.wire.deadline import Deadline

    need("web")
    from breakglass.console.web.checkpoint_server import serve_checkpoints
    from breakglass.console.web.listener import HttpListener, token_of

    if connection.write:
        need("pipeline")
    schedule = Schedule(every, limits)
    if not connection.write and schedule != Schedule():
        raise ReadOnly("a schedule takes and deletes checkpoints: add --write")
    if not connection.write and hold_retention:
        raise ReadOnly("--hold-retention changes topics' settings: add --write")
    listener = HttpListener.at(host, port, tls_certificate, tls_key)
    how = copy_settings(drain, max_rate, control_topic, node, master)
    wanted = wanted_checkpoint(topics, group, level, external, flow, how, hold_retention)
    promised = wanted.level
    if promised is None and connection.write:
        promised = chosen_level(connection, wanted)
    # A server that takes nothing needs no promise.
    wanted = wanted.at(promised or Level.VECTOR)
    wanted.require_coherent()
    opened = store_at(store)
    if not connection.write:
        try:
            all_in(opened)
        except StorageError as error:
            say(f"not known whether the store is there: {error}")
    token = token_of(TOKEN, token_file)
    with ExitStack() as stack:
        client = stack.enter_context(connection.reading())
        markers = None
        if connection.write and wanted.level is Level.COORDINATED:
            cluster_id = client.describe(Deadline.after(patience.JOB)).cluster_id
            power = connection.power("serving checkpoints")
            markers = stack.enter_context(power.markers(cluster_id))
        stop, holds = StopRequest(), ServedHolds(connection, client, opened, wanted)
        finishing = finisher_of(connection.access(), client, opened, how, stop.wait)
        finisher = stack.enter_context(finishing)
        try:
            KafkaTopics(client, None, wanted).scope()
        except Unreachable as error:
            # It may answer later.
            say(f"not known whether the topics are there: {error}")
        serving = Serving(
            opened,
            coordinator_of(client, markers, opened, wanted, holds.suspend),
            finisher,
            say,
            schedule,
            keep=write_traceback,
            same_id=same_id,
            stop=stop,
            release=holds.release_ended,
        )
        serve_checkpoints(serving, token, listener, writable=connection.write)


@dataclass(frozen=True, slots=True)
class ServedHolds:
    """Holds that are made and released under guard; the server's options are the consent."""

    connection: Connection
    client: ReadClient
    store: BackupStore
    wanted: WantedCheckpoint

    def suspend(self, request: str) -> None:
        """Suspend retention, if that is wanted, for a checkpoint that is not started yet."""
        from breakglass.services.checkpoint.acts.take import HoldRetention

        if self.wanted.hold_retention:
            act = HoldRetention(self.wanted.topics, self.wanted.how.control_topic, request)
            command = GuardedCommand(act, Consent(implied=True), self.connection)
            command.carry_out(command.freeze(), write=True)

    def release_ended(self) -> None:
        """Give topics the retention again that was held back for checkpoints that have ended."""
        from breakglass.services.checkpoint.acts.take import release_ended
        from breakglass.services.checkpoint.kafka.logs import read_control
        from breakglass.services.kafka.wire.deadline import Deadline

        if self.wanted.hold_retention:
            topic = self.wanted.how.control_topic
            control = read_control(self.client, topic, Deadline.after(patience.JOB))
            held = () if control is None else {hold.request for hold in control.held.values()}
            release_ended(self.store, held, partial(release, self.connection, topic))


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
    from breakglass.services.checkpoint.parts import finisher_of

    need("pipeline")
    opened = store_at(store)
    found = found_in(opened, id)
    if found.take is None:
        raise Refused(f"checkpoint {id} was never asked for: take a new one.")
    take = found.take
    how = copy_settings(drain, max_rate, control_topic, node, master)
    nodes = {copy.id.node for part in found.partitions for copy in part.copies}
    with ExitStack() as stack:
        stack.enter_context(failure_printed(opened, take.request, take.level, as_json=as_json))
        if connection.write:
            stack.callback(release, connection, control_topic, take.request)
        client = stack.enter_context(connection.reading())
        finisher = stack.enter_context(finisher_of(connection.access(), client, opened, how))
        failed: tuple[int, ...] = ()
        if found.started is not None and node not in nodes:
            failed = take_over(client, opened, take, control_topic)
            say(f"node {node} takes over")
        if failed:
            say(f"{len(failed):,} partitions have failed by that: their owners are past it")
            done = found_in(opened, id)
        else:
            done = copied(finisher, id, control_topic)
    end_with(done, as_json=as_json)


def verify(id: Id, store: Store, as_json: AsJson = False) -> None:
    """Read every file of a completed checkpoint, and compare it with what was committed.

    For each partition, the copy that a restore would use is checked: files by size and SHA-256, the
    end by the cut, the log by the leader epochs. No broker is asked. The store keeps the result;
    list, show and the console show it. Exits with 1 when anything is damaged.
    """
    from breakglass.services.checkpoint.spark.restore import verify as verified

    opened = store_at(store)
    found = found_in(opened, id)
    names = {part.number: part.name for part in found.partitions}
    done = verified(
        opened, found, lambda number, wrong: say(f"{names[number]}  {wrong or 'whole'}")
    )
    if as_json:
        print_json({"schema": 1, "id": id, "proved": found.proved, **verification(done)})
        raise typer.Exit(1 if done.damage else 0)
    say(f"{done.files:,} files with {done.size:,} bytes were read")
    if done.damage:
        say(
            f"checkpoint {id} is damaged in {len(done.damage):,} of {len(found.partitions):,} "
            "partitions: bring the files back from another copy of the store, or take a checkpoint "
            "with a new id"
        )
        raise typer.Exit(1)
    if found.proved:
        say(f"checkpoint {id} is as it was committed: its documents by their sums too")
    else:
        say(f"checkpoint {id} has the files that were committed. {NOT_PROVED}")


def prune(
    store: Store,
    id: Annotated[
        int | None,
        typer.Argument(min=1, metavar="ID", help="A checkpoint to delete, whatever its age."),
    ] = None,
    limits: Limits = NO_LIMITS,
    write: Write = False,
    delete: OldDelete = False,
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """List the checkpoints that --keep and --older-than select; with --write, delete them.

    Without these options and without ID, no checkpoint is selected. The newest completed checkpoint
    always stays, and so do checkpoints that are being copied. --write also completes interrupted
    deletions. The id of a deleted checkpoint is never used again. With ID, exactly that checkpoint
    is deleted, even if it is the newest or is being copied: its worker is refused from then on.
    """
    opened = store_at(store)
    agreed = Consent(tuple(consent or ()))
    if id is not None:
        if limits != NO_LIMITS:
            raise UsageError("ID names one checkpoint: leave out --keep and --older-than")
        if id not in opened.ids():
            found_in(opened, id)
        one = GuardedCommand(DeleteCheckpoint(opened, id), agreed)
        one.carry_out(one.freeze(), write=write)
        if as_json:
            print_json({"schema": 1, "deleted": [id]})
        else:
            say(f"checkpoint {id} is deleted")
        return
    all_in(opened)
    command = GuardedCommand(DeleteExpired(opened, limits), agreed)
    frozen = command.freeze()
    going, left = frozen.plan.going, frozen.plan.left
    deleting = write or delete
    if deleting and (going or left):
        command.carry_out(frozen, write=write)
    if as_json:
        ids = {"checkpoints": list(going), "left_of_deleted": list(left)}
        print_json({"schema": 1, "deleted": deleting, **ids})
        return
    if left:
        say(f"{'removed' if deleting else 'to remove'}, left of deleted ones: {listed(left)}")
    if going:
        say(f"{'deleted' if deleting else 'may be deleted'}: {listed(going)}")
    else:
        say("No checkpoint may be deleted.")


app = new_app("Take, show, prune and restore consistent checkpoints of topics and groups.")
app.command()(take)
app.command("list")(list_all)
app.command()(show)
app.command()(verify)
app.command("restore")(restore_checkpoint)
app.command()(with_groups(prune))
app.command()(explain)
app.command()(finish)
serve_app = new_app()
serve_app.command("checkpoints")(serve)


@app.callback()
def checkpoint() -> None:
    """Take, show, prune and restore consistent checkpoints of topics and groups."""
