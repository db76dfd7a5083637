"""Plans a restore: what it changes in the existing topic, what is lost, which servers run.

Reads only. That no ksqlDB server runs cannot be proved (M6): servers read the command topic outside
any group and keep no transaction open between statements. Visible signs are members of their
queries' groups, an open transaction, a producer epoch that grows, and answers of servers at known
addresses.

The commands to restore: read from a backup, checked, with their original offsets.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, ClusterError, MalformedInput, Refused
from breakglass.services.guard.journal import EntryKind, JournalView, UnreadableJournal
from breakglass.services.guard.steps import RESTORE_COMMAND_TOPIC
from breakglass.services.kafka.cluster.settings import MIN_ISR
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.answers import describe_error, only
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.metastore.command import VERSION, Command, CommandId
from breakglass.services.metastore.ksql_server import AskedServers, ask_servers
from breakglass.services.metastore.lines import (
    BackupLine,
    CommandRecord,
    Finding,
    LineFinding,
    checked,
    read_lines,
)
from breakglass.services.metastore.settings import REPLICAS, MetastoreSettings
from breakglass.services.metastore.side_file import SideEntry, SideHeader, verify_backup
from breakglass.services.metastore.topic import (
    TopicReader,
    TopicState,
    dangers,
    read_topic_state,
)
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.regular_file import open_regular
from breakglass.services.topic_backup.folder import storage_errors


class Offsets(StrEnum):
    """The offsets that the restored commands get."""

    ORIGINAL = "original"
    """From the side file: query ids derive from them."""
    COMPACT = "compact"
    """From 0 without gaps, in one transaction."""
    EVERY_OTHER = "every other"
    """0, 2, 4: one transaction for each command, as ksqlDB's own restore leaves them."""


@dataclass(frozen=True, slots=True)
class Skips:
    """Commands that are left out instead of refused."""

    incompatible: bool = False
    terminate_cluster: bool = False


@dataclass(frozen=True, slots=True)
class Restorable:
    """A command to restore."""

    line: int
    id: CommandId
    command: Command
    record: CommandRecord
    """With its new offset."""


@dataclass(frozen=True, slots=True)
class RestoreSource:
    """A backup that was read completely and can be restored."""

    file: Path
    commands: tuple[Restorable, ...]
    skipped: tuple[LineFinding, ...]
    notes: tuple[LineFinding, ...]
    """Findings that prevent nothing, but are worth knowing."""
    offsets: Offsets
    known: tuple[int, ...] | None
    """The original offsets of these commands; None unless a side file has all of them."""
    header: SideHeader | None = None

    @property
    def records(self) -> tuple[CommandRecord, ...]:
        return tuple([command.record for command in self.commands])


def read_source(
    file: Path,
    skips: Skips,
    *,
    compact: bool = False,
    as_ksqldb: bool = False,
    only_read: bool = False,
) -> RestoreSource:
    """Read and check a backup, before anything is changed.

    Without offsets from a side file, *compact* or *as_ksqldb* is required; *as_ksqldb* then uses
    every other offset. With *only_read* nothing is restored: TERMINATE CLUSTER stays in its place,
    and unknown offsets become every other offset.

    Raises:
        MalformedInput: a line cannot be restored; names it as ksqlDB's restore does. Or lines were
            changed, lost or added since they were written, according to the side file.
        Refused: it would terminate the cluster again, or has no offsets.
        StorageError: the backup cannot be read.
    """
    entries: dict[int, SideEntry] = {}
    verified = verify_backup(file, entries)
    verified.require_unchanged(only_read=only_read)
    good: list[tuple[BackupLine, CommandId, Command]] = []
    skipped: list[LineFinding] = []
    notes: list[LineFinding] = []
    with storage_errors(str(file)), open_regular(file) as data:
        for line in checked(read_lines(data), VERSION, noted=verified.noted_bytes):
            for finding in line.findings:
                if not (only_read and finding.finding is Finding.ENDS_CLUSTER):
                    _judge(finding, skips, skipped, notes)
            left_out = not only_read and any(
                one.finding is Finding.ENDS_CLUSTER for one in line.findings
            )
            if line.id is not None and line.command is not None and not left_out:
                good.append((line.line, line.id, line.command))
    noted = [entries[line.end].offset for line, _, _ in good if line.end in entries]
    grows = all(one < other for one, other in pairwise(noted))
    known = noted if len(noted) == len(good) and grows else None
    if known is None and not (compact or as_ksqldb or only_read):
        raise Refused(
            f"{file.name} has no side file that tells the offsets its commands had, and query ids "
            "derive from them: add --compact-offsets to restore it from offset 0 on"
        )
    offsets = Offsets.COMPACT if compact else Offsets.ORIGINAL
    if known is None and not compact:
        offsets = Offsets.EVERY_OTHER
    return RestoreSource(
        file,
        tuple(_commands(good, entries, offsets)),
        tuple(skipped),
        tuple(notes),
        offsets,
        None if known is None else tuple(known),
        verified.header,
    )


def _judge(
    finding: LineFinding, skips: Skips, skipped: list[LineFinding], notes: list[LineFinding]
) -> None:
    kind = finding.finding
    if kind is Finding.ENDS_CLUSTER:
        if not skips.terminate_cluster:
            raise Refused(
                f"{finding.message}, and every topic of the service goes with it: add "
                "--skip-terminate-cluster to leave it out"
            )
        skipped.append(finding)
    elif kind in (Finding.INCOMPATIBLE, Finding.INVALID, Finding.LINE) and skips.incompatible:
        skipped.append(finding)
    elif kind.prevents_restore:
        raise MalformedInput(finding.message)
    else:
        notes.append(finding)


def _commands(
    good: list[tuple[BackupLine, CommandId, Command]],
    entries: dict[int, SideEntry],
    offsets: Offsets,
) -> list[Restorable]:
    commands = []
    for number, (line, key, command) in enumerate(good):
        entry = entries.get(line.end)
        if offsets is Offsets.ORIGINAL:
            assert entry is not None
            offset = entry.offset
        else:
            offset = number if offsets is Offsets.COMPACT else 2 * number
        record = CommandRecord(
            offset,
            line.key,
            line.value,
            None if entry is None else entry.timestamp_ms,
            () if entry is None else entry.headers,
        )
        commands.append(Restorable(line.number, key, command, record))
    return commands


def reusable_query_ids(source: RestoreSource) -> tuple[str, ...]:
    """Query ids that ksqlDB will assign again: the next id is the last offset plus one.

    A query with the id of an ended query finds that query's state (#6010, #6159).
    """
    if not source.commands:
        return ()
    last = source.commands[-1].record.offset
    ids = Counter(
        command.command.plan.query.id
        for command in source.commands
        if command.command.plan is not None and command.command.plan.query is not None
    )
    return tuple(sorted(id_ for id_ in ids if _number(id_) > last))


def changed_query_ids(source: RestoreSource) -> tuple[tuple[str, int, int], ...]:
    """Commands without a plan that start queries: the previous offset determines their new ids.

    For each: the statement's id, the old number, the new number.
    """
    if source.known is None:
        return ()
    changed = []
    for index, one in enumerate(source.commands):
        if one.command.plan is None and _begins_query(one.command.statement):
            before = source.known[index - 1] + 1 if index else 0
            after = source.commands[index - 1].record.offset + 1 if index else 0
            if before != after:
                changed.append((str(one.id), before, after))
    return tuple(changed)


def _begins_query(statement: str) -> bool:
    words = statement.upper().split()
    return words[:1] == ["INSERT"] or (words[:1] == ["CREATE"] and "SELECT" in words)


def _number(query_id: str) -> int:
    number = query_id.rpartition("_")[2]
    return int(number) if number.isascii() and number.isdigit() else -1


TRANSACTION = 1
"""CoordinatorType of FindCoordinator."""
BETWEEN_SAMPLES = 1.0
UNDER_WAY = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
WITHOUT_MEMBERS = frozenset({"Empty", "Dead"})


@dataclass(frozen=True, slots=True)
class LiveServers:
    """Signs of running servers; ``unknown`` lists what could not be read."""

    groups: tuple[str, ...] = ()
    """Groups of queries with members."""
    transaction: str | Unknown = ""
    """State of the service's transactional id; empty if the id was never used."""
    writing: bool = False
    """The producer epoch grew between the two looks."""
    unknown: tuple[str, ...] = ()
    answering: tuple[str, ...] = ()
    """A sentence for each server of this service that answered."""

    @property
    def seen(self) -> tuple[str, ...]:
        """A sentence for each sign of a running server."""
        found = []
        if self.groups:
            named = ", ".join(self.groups[:3]) + ("..." if len(self.groups) > 3 else "")
            found.append(f"{len(self.groups)} query groups have members: {named}")
        if self.transaction in UNDER_WAY:
            found.append(f"a transaction of the service is under way ({self.transaction})")
        if self.writing:
            found.append("a writer took the service's transactional id while it was looked at")
        return (*found, *self.answering)

    @property
    def unseen(self) -> tuple[str, ...]:
        """A sentence for everything that is unknown."""
        always = "whether every server is stopped cannot be known: idle ones leave no trace"
        return (*self.unknown, always)


def look_for_servers(
    sender: Sender, settings: MetastoreSettings, brokers: Iterable[int], deadline: Deadline
) -> LiveServers:
    """Look twice, a second apart. A missing answer is a reason in the result, never an error."""
    unknown: list[str] = []
    prefix = f"_confluent-ksql-{settings.service_id}{settings.persistent_prefix}"
    groups = tuple(sorted(set(_groups(sender, brokers, prefix, deadline, unknown))))
    first = _transaction(sender, settings.service_id, deadline)
    time.sleep(BETWEEN_SAMPLES)
    second = _transaction(sender, settings.service_id, deadline)
    for told in (second, first):
        if isinstance(told, Unknown):
            unknown.append(f"the service's transactions could not be read: {told.reason}")
            return LiveServers(groups, told, False, tuple(unknown))
    assert not isinstance(first, Unknown)
    assert not isinstance(second, Unknown)
    return LiveServers(groups, second[0], first[1] != second[1], tuple(unknown))


def with_answers(servers: LiveServers, asked: AskedServers | None) -> LiveServers:
    """*servers* with the answers of the servers that were asked; None: no server was asked."""
    if asked is None:
        none = (
            "no server was asked whether it runs: `ksql restore --server http://HOST:8088` asks one"
        )
        return replace(servers, unknown=(*servers.unknown, none))
    return replace(servers, unknown=(*servers.unknown, *asked.unknown), answering=asked.seen)


def _groups(
    sender: Sender, brokers: Iterable[int], prefix: str, deadline: Deadline, unknown: list[str]
) -> Iterable[str]:
    from kafka.protocol.admin import ListGroupsRequest, ListGroupsResponse

    for broker in brokers:
        request = ListGroupsRequest(states_filter=[], types_filter=[])
        try:
            answer = sender.call(broker, request, ListGroupsResponse, deadline)
        except BreakglassError as error:
            unknown.append(f"b{broker} does not tell its groups: {error}")
            continue
        if answer.error_code:
            told = describe_error(answer.error_code)
            unknown.append(f"b{broker} does not tell its groups: {told}")
        for group in answer.groups:
            if group.group_id.startswith(prefix) and group.group_state not in WITHOUT_MEMBERS:
                yield group.group_id


def _transaction(
    sender: Sender, transactional_id: str, deadline: Deadline
) -> tuple[str, tuple[int, int]] | Unknown:
    """The transaction state, and the producer id with its epoch."""
    from kafka.protocol.admin import DescribeTransactionsRequest, DescribeTransactionsResponse

    try:
        coordinator = _coordinator(sender, transactional_id, deadline)
        if isinstance(coordinator, Unknown):
            return coordinator
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        answer = sender.call(coordinator, request, DescribeTransactionsResponse, deadline)
        told = only(answer.transaction_states, f"b{coordinator}")
    except BreakglassError as error:
        return Unknown(str(error))
    if told.error_code == TRANSACTIONAL_ID_NOT_FOUND:
        return "", (-1, -1)
    if told.error_code:
        return Unknown(describe_error(told.error_code))
    return told.transaction_state, (told.producer_id, told.producer_epoch)


TRANSACTIONAL_ID_NOT_FOUND = 105


def _coordinator(sender: Sender, transactional_id: str, deadline: Deadline) -> int | Unknown:
    from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

    request = FindCoordinatorRequest(
        key_type=TRANSACTION, key=transactional_id, coordinator_keys=[transactional_id]
    )
    answer: Any = sender.call(ANY_BROKER, request, FindCoordinatorResponse, deadline)
    told = answer.coordinators[0] if answer.coordinators else answer
    if told.error_code:
        return Unknown(f"no coordinator ({describe_error(told.error_code)})")
    return int(told.node_id)


@dataclass(frozen=True, slots=True)
class PresentTopic:
    """The existing topic."""

    topic_id: str
    commands: int
    next_offset: int
    """The offset of its next command, as far as it can be read."""
    replicas: int
    min_insync: str | None
    """Its own setting; None: it has the brokers'."""
    lost: int
    """Commands of the topic that the backup lacks at the same index."""
    same: bool
    """The topic already equals the restored content, offsets included, and has no danger."""


SNAPSHOT = "snapshot"
"""In the journal: the file that has the commands from before."""


class KilledRestore(NamedTuple):
    """What the journal of a killed run of this restore has of the topic that it replaced."""

    phrase: str
    """The consent to it."""
    replicas: int | None
    min_insync: str | None
    snapshot: str
    """Empty: there is none."""


@dataclass(frozen=True, slots=True)
class MetastoreRestorePlan:
    """A restore before anybody consented to it."""

    cluster_id: str
    topic: str
    settings: MetastoreSettings
    source: RestoreSource
    present: PresentTopic | None
    """None: the topic does not exist."""
    servers: LiveServers
    killed: KilledRestore | None = None
    """The run of this restore that was killed; see `going_on`."""

    @property
    def phrase(self) -> str:
        """The phrase to type: the topic and the number of commands that are lost."""
        if self.killed:
            return self.killed.phrase
        running = " while servers run" if self.servers.seen else ""
        return f"{self.topic} lose {self.lost:,}{running}"

    @property
    def lost(self) -> int:
        """The topic's commands from the first one on that the backup has not."""
        return 0 if self.present is None else self.present.lost

    @property
    def shortage(self) -> str:
        """That the backup is empty or shorter than the topic, as a torn file is; else empty."""
        commands = len(self.source.commands)
        before = 0 if self.present is None else self.present.commands
        if self.done or commands >= max(before, 1):
            return ""
        return f"the backup has {commands:,} commands and the topic {before:,}: check the file"

    @property
    def done(self) -> bool:
        """The topic already has the restored content."""
        return self.present is not None and self.present.same

    @property
    def replicas(self) -> int:
        """Replicas of the new topic: as in the one it replaces, else from the properties."""
        before = self.present or self.killed
        return (before and before.replicas) or self.settings.replicas

    @property
    def min_insync(self) -> str | None:
        """`min.insync.replicas` of the new topic, by the same; None: the brokers' setting."""
        before, asked = self.present or self.killed, self.settings.min_insync
        return (before and before.min_insync) or (None if asked is None else str(asked))

    @property
    def creation(self) -> str:
        """That the topic does not exist, and how many replicas it gets, by what."""
        by = f"{REPLICAS} of --config-file (1 without it)"
        if self.killed and self.killed.replicas:
            by = "the journal of the restore that was killed"
        number = f"replicas: {self.replicas:,}, by {by}"
        return f"{self.topic} does not exist and will be created; {number}"


def going_on(
    plan: MetastoreRestorePlan, journals: Iterable[JournalView | UnreadableJournal]
) -> MetastoreRestorePlan:
    """*plan*; after a kill of the same restore it continues under the consent that was given then.

    That run has backed the topic up and deleted it, so nothing more is lost. The transaction that
    it left open is no sign of a server. *journals* are those of the cluster, newest first.
    """
    killed = _killed(plan, journals)
    if killed is None or plan.done or (plan.present is not None and plan.present.lost):
        return plan
    servers = plan.servers
    if servers.transaction in UNDER_WAY:
        own = f"the transaction under way ({servers.transaction}) is taken for the killed restore's"
        servers = replace(servers, transaction="", unknown=(*servers.unknown, own))
    if servers.seen:
        return plan
    return replace(plan, servers=servers, killed=killed)


def _killed(
    plan: MetastoreRestorePlan, journals: Iterable[JournalView | UnreadableJournal]
) -> KilledRestore | None:
    """The last restore of the topic, if that was this one and has not ended."""
    place = TopicPartition(plan.topic, 0)
    for view in journals:
        if isinstance(view, UnreadableJournal):
            continue
        steps = [step for step in view.steps_of(place) if step.name == RESTORE_COMMAND_TOPIC]
        if not steps:
            continue
        item = steps[-1].items[place]
        same = (item.get("file"), item.get("commands")) == (
            str(plan.source.file),
            len(plan.source.commands),
        )
        if view.result is not None or view.consent is None or not same:
            return None
        if place not in steps[-1].unsettled:
            return None
        notes = [entry.payload for entry in view.entries if entry.kind is EntryKind.NOTE]
        before = [str(note[SNAPSHOT]) for note in notes if SNAPSHOT in note]
        return KilledRestore(
            str(view.consent.payload["phrase"]),
            item.get("replicas"),
            item.get("min_insync"),
            before[-1] if before else str(item.get(SNAPSHOT) or ""),
        )
    return None


def make_plan(
    client: ReadClient,
    settings: MetastoreSettings,
    source: RestoreSource,
    servers: Sequence[SplitResult] = (),
) -> MetastoreRestorePlan:
    """Read the topic and look for servers; *servers* are also asked (`server_url`).

    Raises: Unreachable, NotAuthorized, ClusterError.
    """
    description = client.describe(Deadline.after(patience.COMMAND))
    state = read_topic_state(client.sender, settings.topic, Deadline.after(patience.COMMAND))
    present = None if state is None else look_at(client, settings.topic, state, source)
    deadline = Deadline.after(patience.COMMAND)
    found = look_for_servers(client.sender, settings, description.live, deadline)
    cluster_id, asked = description.cluster_id, None
    if servers:
        asked = ask_servers(servers, settings.service_id, cluster_id)
    found = with_answers(found, asked)
    return MetastoreRestorePlan(cluster_id, settings.topic, settings, source, present, found)


def look_at(
    client: ReadClient, topic: str, state: TopicState, source: RestoreSource
) -> PresentTopic:
    """Read the topic, and compare it with the restored content."""
    wanted = source.records
    commands = equal = 0
    in_place = apart = False
    reader = TopicReader(client, topic)
    deadline = Deadline.after(patience.JOB)
    at_end, next_offset = False, 0
    in_place = True
    while not at_end:
        if deadline.passed:
            raise ClusterError(f"topic {topic} does not come to an end: try again")
        batch = reader.poll(0.5)
        at_end, next_offset = batch.at_end, batch.next_offset
        for record in batch.records:
            other = wanted[commands] if commands < len(wanted) else None
            apart = apart or other is None or (record.key, record.value) != (other.key, other.value)
            in_place = in_place and other is not None and record.offset == other.offset
            equal += not apart
            commands += 1
    safe = not any(dangers(state, topic, None))
    same = safe and not apart and in_place and commands == len(wanted)
    minimum = state.settings.get(MIN_ISR)
    return PresentTopic(
        state.topic_id,
        commands,
        next_offset,
        state.replicas,
        minimum.value if minimum is not None and minimum.source == "topic" else None,
        commands - equal,
        same,
    )
