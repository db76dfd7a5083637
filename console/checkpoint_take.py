"""`breakglass checkpoint take` and `restore`: copy a cut of topics, and put it back under guard.

Copying an acknowledged checkpoint to its end, and saying what becomes of each partition in the
meantime, is what `checkpoint finish` does as well.
"""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from breakglass.console.checkpoint_list import (
    CONTROL,
    DRAIN_MS,
    CheckpointTopics,
    ChosenLevel,
    ControlTopic,
    Drain,
    External,
    Flows,
    Groups,
    HoldRetention,
    Id,
    MaxRate,
    Node,
    Store,
    document,
    end_with,
    found_in,
    print_checkpoint,
    store_at,
)
from breakglass.console.guarded import GuardedCommand, say_event
from breakglass.console.option_values import Consent, names_in, pairs_in
from breakglass.console.options import (
    AsJson,
    DryRun,
    Master,
    Phrases,
    Progress,
    connected_for_writing,
)
from breakglass.console.output import print_json, print_lines, say
from breakglass.console.restoring import (
    Compared,
    Renamed,
    Replicas,
    Resume,
    exit_code,
    print_restored,
    restoring,
)
from breakglass.console.wiring import Connection
from breakglass.services.checkpoint.promises import MASTER, CopySettings, WantedCheckpoint
from breakglass.services.checkpoint.protocol.values import LARGEST_ASKED
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.checkpoint.wording import (
    RestoreAsked,
    explain,
    flows_in,
    level_of,
    level_words,
    policies,
    promise,
    settings_given,
    settings_told,
    with_flows,
)
from breakglass.services.errors import BreakglassError, UsageError
from breakglass.services.extras import need
from breakglass.services.guard.act import JournalOpened

if TYPE_CHECKING:
    from breakglass.services.checkpoint.coordinator import Finisher
    from breakglass.services.checkpoint.spark.restore import CheckpointPlan
    from breakglass.services.checkpoint.store.backup_store import BackupStore
    from breakglass.services.checkpoint.store.stored import StoredCheckpoint
    from breakglass.services.guard.act import ActEvent, Tell


@connected_for_writing
def take(
    connection: Connection,
    store: Store,
    topics: CheckpointTopics,
    group: Groups = None,
    level: ChosenLevel = None,
    external: External = None,
    flow: Flows = None,
    id: Annotated[
        int | None,
        typer.Option(
            "--id",
            min=1,
            max=LARGEST_ASKED,
            help="Checkpoint id; must be greater than all earlier ids (default: the next free id).",
        ),
    ] = None,
    request: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Idempotency key; repeat it to resume this request."),
    ] = None,
    drain: Drain = DRAIN_MS,
    max_rate: MaxRate = None,
    hold_retention: HoldRetention = False,
    control_topic: ControlTopic = CONTROL,
    node: Node = 0,
    master: Master = "local[*,4]",
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Take a checkpoint of topics and groups; producers and consumers keep running.

    The levels promise more or less. coordinated: a marker is written into every partition (needs
    --write), and applications that use the participant cut their logs at it. verified: the ends of
    the partitions are lowered until no record lacks the records that led to it. transactional: the
    ends are lowered until every transaction is in the checkpoint as a whole or not at all, which
    suits exactly-once applications without the participant, such as Kafka Streams. ordered: offsets
    and ends are read against the flow of records, so that at-least-once applications lose nothing.
    vector: the ends as they are read, without a promise. Without --level, the strongest promise
    that holds is chosen; `breakglass checkpoint explain` says why.

    Exits with 0 once every partition is copied. A checkpoint that cannot be made consistent fails,
    and says why. A compacted topic needs --hold-retention, or the level vector.
    """
    from breakglass.services.checkpoint.acts.take import TakeCheckpoint
    from breakglass.services.checkpoint.parts import finisher_of

    need("pipeline")
    how = copy_settings(drain, max_rate, control_topic, node, master)
    wanted = wanted_checkpoint(topics, group, level, external, flow, how, hold_retention)
    opened = store_at(store)
    looked = wanted.level is None
    if looked:
        with failure_printed(opened, request or "", None, as_json=as_json):
            before = None if request is None else _of_request(opened, request)
            known = None if before is None else before.level
            wanted = replace(wanted, level=known or chosen_level(connection, wanted))
    level = wanted.level
    act = TakeCheckpoint(
        opened,
        wanted,
        id,
        request or uuid4().hex,
        repeatable=request is not None,
        looked=looked,
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
        say(f"checkpoint {ending.value} is acknowledged: {level}, {len(wanted.groups)} groups")
        with (
            connection.reading() as client,
            finisher_of(connection.access(), client, opened, how) as finisher,
        ):
            found = copied(finisher, ending.value, control_topic)
    end_with(found, as_json=as_json)


def copy_settings(
    drain: int, max_rate: float | None, control_topic: str, node: int = 0, master: str = MASTER
) -> CopySettings:
    """How these options have checkpoints taken and copied; *drain* is in milliseconds."""
    return CopySettings(node, drain / 1000, max_rate or None, master, control_topic)


def wanted_checkpoint(
    topics: Sequence[str],
    group: Sequence[str] | None,
    level: Level | None,
    external: Sequence[str] | None,
    flow: Sequence[str] | None,
    how: CopySettings,
    hold_retention: bool = False,
) -> WantedCheckpoint:
    """What these options ask for, given to the command or typed on a screen.

    Raises UsageError: a text cannot be read, or no topic is named.
    """
    names = names_in(topics)
    if not names:
        raise UsageError("No topic is named: write --topics A,B.")
    flows = flows_in(flow)
    return WantedCheckpoint(
        names,
        with_flows(policies(group), flows),
        None if level is None else Level(level),
        names_in(external),
        flows,
        hold_retention,
        how,
    )


def chosen_level(connection: Connection, wanted: WantedCheckpoint) -> Level:
    """The strongest level whose promise holds; says which, and what is missing for a better one.

    Raises:
        Refused: no promise holds.
        UsageError, ClusterError, Unreachable: the topics cannot be read.
    """
    with connection.reading() as client:
        found = explain(client, wanted)
    level = found.require_level()
    say(f"level {level}: the strongest promise that holds")
    for missing in level_words(found, level):
        say(f"  {missing}")
    return level


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


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def copied(finisher: Finisher, id: int, control_topic: str) -> StoredCheckpoint:
    """Have it copied, saying what becomes of each partition. Raises as `Finisher.finish`."""
    found = finisher.store.read(id)
    names = {} if found is None else {part.number: part.name for part in found.partitions}
    words = ["breakglass", "checkpoint", "finish", str(id), "--store", finisher.store.address]
    if control_topic != CONTROL:
        words += ["--control-topic", control_topic]
    if finisher.node:
        words += ["--node", str(finisher.node)]
    stopped = (
        f"checkpoint {id} is acknowledged, and not copied yet: finish it with "
        f"`{shlex.join(words)}`. Copies under way end first; a second signal ends them as well."
    )
    with saying_when_stopped(stopped):
        return finisher.finish(id, lambda number, status: say(f"{names[number]}  {status}"))


@contextmanager
def saying_when_stopped(words: str) -> Iterator[None]:
    """While entered, the first signal says *words* and interrupts; the second one ends at once.

    Raises KeyboardInterrupt: a signal came.
    """

    def stop(_number: int, _frame: FrameType | None) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        say(words)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def failure_printed(
    store: BackupStore, request: str, level: Level | None, *, as_json: bool
) -> Iterator[None]:
    """Print on stdout what is stored of a request that fails, with the reason; the error passes.

    With --json there is a document even where nothing is stored.
    """
    try:
        yield
    except BreakglassError as error:
        found = _of_request(store, request)
        if as_json:
            kept = {"id": None, "level": level, "state": None} if found is None else document(found)
            print_json({"schema": 1, **kept, "failure": kept.get("failure") or str(error)})
        elif found is not None:
            print_checkpoint(found)
        raise


def _of_request(store: BackupStore, request: str) -> StoredCheckpoint | None:
    # A store that cannot be read now must not hide the error.
    with suppress(BreakglassError):
        id = store.id_of(request)
        return None if id is None else store.read(id)
    return None


@connected_for_writing
def restore_checkpoint(
    connection: Connection,
    id: Id,
    store: Store,
    renamed: Renamed = None,
    suffix: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="Suffix for the names of topics that --map does not name."
        ),
    ] = "",
    to_bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--to-bootstrap-server",
            metavar="HOST:PORT,...",
            help="Brokers of another cluster, into which the checkpoint is restored.",
        ),
    ] = None,
    to_command_config: Annotated[
        str | None,
        typer.Option(
            "--to-command-config",
            metavar="FILE",
            help="Client properties for that cluster; no others are used there.",
        ),
    ] = None,
    replication_factor: Replicas = None,
    resume: Resume = False,
    check: Compared = True,
    dry_run: DryRun = False,
    progress: Progress = None,
    control_topic: ControlTopic = CONTROL,
    master: Master = "local[*,4]",
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Restore all partitions of one completed checkpoint into new or empty topics.

    Records up to the cut are restored first, then the records that were in transit. Groups get
    their offsets, mapped to the new offsets; their members must not run. Participants that start
    afterwards continue from the cut. An interrupted restore resumes with --resume; or delete the
    topics and start again.

    With --to-bootstrap-server, the checkpoint is restored into another cluster. The command does
    not contact the checkpoint's own cluster, which may be gone. The consent then names the other
    cluster by its id.
    """
    need("pipeline")
    from breakglass.services.checkpoint.acts.restore import RestoreCheckpoint, how_it_ended
    from breakglass.services.checkpoint.spark.restore import target_names
    from breakglass.services.pipeline.restore.options import RestoreSettings

    opened = store_at(store)
    found = found_in(opened, id)
    asked = restore_asked(renamed, suffix, resume, control_topic)
    target_names(found, asked)
    how = RestoreSettings(master=master, verify=check, replication_factor=replication_factor or -1)
    elsewhere = to_bootstrap_server is not None or to_command_config is not None
    if elsewhere:
        connection = connection.to(to_bootstrap_server, to_command_config)
    act = RestoreCheckpoint(opened, id, asked, how, progress, elsewhere)
    with restoring(act, Consent(tuple(consent or ())), connection) as command:
        frozen = command.freeze()
        plan: CheckpointPlan = frozen.plan
        if dry_run:
            phrase = frozen.asked[0].phrase
            document = {"phrase": phrase, **_head(plan), "plan": plan.plan.document()}
            print_json({"schema": 1, **document, "settings": settings_given(plan)})
            return
        if elsewhere:
            say(f"into cluster {dict(frozen.facts)['Cluster']}")
        _say_plan(plan)
        done = command.carry_out(frozen, write=connection.write).value
    if as_json:
        whole = all(topic.whole for topic in done)
        told = {"whole": whole, "topics": done, "settings": settings_given(plan)}
        print_json({"schema": 1, **_head(plan), **told})
    else:
        found = plan.found
        print_lines([f"checkpoint {found.id}  {level_of(found)}  {found.status}", promise(found)])
    print_restored(done, table=not as_json)
    say(how_it_ended(done, plan.earlier))
    raise typer.Exit(exit_code(done))


def restore_asked(
    renamed: Sequence[str] | None, suffix: str, resume: bool, control_topic: str
) -> RestoreAsked:
    """What these options ask for, given to the command or typed on a screen.

    Raises UsageError: a text cannot be read.
    """
    return RestoreAsked(pairs_in(renamed, "--map", form="OLD=NEW"), suffix, resume, control_topic)


def _head(plan: CheckpointPlan) -> dict[str, object]:
    """What is restored, and what may be relied on after that."""
    found = plan.found
    clusters = {
        "cluster_id": plan.plan.cluster_id,
        "taken_of": None if found.take is None else found.take.cluster_id,
    }
    told = {"id": found.id, "level": found.level, "state": found.status, "promise": promise(found)}
    return {**told, **clusters}


def _say_plan(plan: CheckpointPlan) -> None:
    say(promise(plan.found))
    for topic in plan.plan.topics:
        what = "into the topic that is there" if topic.exists else "into a new topic"
        say(f"{topic.topic} -> {topic.target}  {topic.records:,} records {what}")
    groups = sorted(
        {name for topic in plan.plan.topics for held in topic.groups.values() for name in held}
    )
    for name in groups:
        say(f"group {name} gets its offsets")
    for given in settings_given(plan):
        for line in settings_told(given):
            say(line)
