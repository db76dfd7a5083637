"""A plan to bring a cluster back from one copy of its metadata, under one new voter.

Everything is decided here, from the folders that `inspect_copies` read and the request; the
same folders and the same request give the same plan, which is how `prepare` looks a second time.
The document is JSON with a version, what was read, what will be written, and a digest of it all.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

from breakglass.services.clock import now_ms
from breakglass.services.errors import MalformedInput, Refused, UnsupportedSchema, UsageError
from breakglass.services.model import Unknown, kafka_id
from breakglass.services.quorum.change_words import ChangeKind, SaidChange
from breakglass.services.quorum.comparison import ComparedCopy, Relation
from breakglass.services.quorum.data_folders import (
    DataFindings,
    FoundReplica,
    Mending,
    StrayFolder,
    mend,
    mended_records,
)
from breakglass.services.quorum.image import (
    BrokerRegistration,
    ControllerRegistration,
    Key,
    PartitionMetadata,
)
from breakglass.services.quorum.inspection import QuorumInspection, state_of
from breakglass.services.quorum.machine_steps import NodeAction, NodeStep, lacks_data
from breakglass.services.quorum.metadata_copy import LogPosition, MetadataCopy, VoterSet
from breakglass.services.quorum.strays import SHOWN, counted, inspect_with_strays, stray_words
from breakglass.services.recovery.plan.partition_file import digest_of, parse_json, read_text
from breakglass.services.rights import open_new
from breakglass.services.topic_backup.folder import storage_errors

if TYPE_CHECKING:
    from breakglass.services.quorum.status import AnsweringNode

SCHEMA = 2
EPOCHS_ABOVE = 1_000
"""Lost disks may have had later epochs than those that were read (Q10)."""
PRODUCER_IDS_ABOVE = 1_000_000
"""A thousand blocks: what brokers were given and no log has yet."""
BLOCK = 1_000
MOST_EPOCH = 2**31 - 1 - 2 * EPOCHS_ABOVE
DIRECTORIES_SINCE = 17
"""The metadata.version from which partitions have log directories, 3.7-IV2."""
LISTENER = "CONTROLLER"
Ask = Callable[[Mapping[Key, Any], str | Unknown], "tuple[AnsweringNode, ...]"]
"""Looks which nodes of a state answer at their addresses, and are of the cluster of that id."""
_VOTER = re.compile(r"(\d+)(?:@(\[[\da-fA-F:.]+\]|[\w.-]+):(\d+))?", re.ASCII)


class NewVoter(NamedTuple):
    """The controller that will lead alone."""

    node: int
    host: str
    port: int
    listener: str
    directory_id: UUID

    def __str__(self) -> str:
        return f"{self.node}@{self.host}:{self.port}"


class QuorumRequest(NamedTuple):
    """What was asked for: enough to make the same plan again."""

    sources: tuple[str, ...]
    copy: str
    """``log:`` and the folder of the chosen copy."""
    voter: NewVoter
    made_at_ms: int
    without_strays: bool = False
    """Records in ``-stray`` folders are given up."""


@dataclass(frozen=True, slots=True)
class QuorumPlan:
    """What will be written, and what becomes of each node."""

    request: QuorumRequest
    cluster_id: str
    copy: MetadataCopy
    dynamic: bool
    epoch: int
    """Of what is appended, and in the new quorum-state; the voter leads at a later one."""
    next_producer_id: int
    aborts: bool
    """The copy ends inside a metadata transaction: what is appended must not be part of it."""
    mending: Mending
    partition_version: int
    nodes: tuple[NodeStep, ...]
    inputs: tuple[Mapping[str, Any], ...]
    """What was read of each folder: where it ends."""
    ends: Mapping[str, Mapping[str, object]]
    """The topic id of each partition, and end and last epoch of the longest log in its ISR. The
    logs of brokers that run do not count."""
    strays_before: tuple[str, ...]
    lost: int | Unknown
    """Records of the best copy that the chosen one lacks."""
    lost_changes: tuple[str, ...]
    forks: tuple[str, ...]
    cuts: tuple[str, ...]
    """Logs that are longer than those of the ISR: their brokers truncate them."""
    damaged: tuple[tuple[str, str], ...]
    """Copies whose logs are damaged, from where on, each with the damage."""
    strays: tuple[StrayFolder, ...]
    """Folders that brokers will rename."""
    missing: tuple[str, ...]
    """Nodes and log directories whose folders were not named."""
    listening: tuple[str, ...]
    """Nodes that may run though they did not answer, each with its address."""
    unknown: tuple[str, ...]
    """What cannot be known, in sentences."""
    stray_records: Mapping[str, int | Unknown] = field(default_factory=dict)
    """Of each topic, what ``-stray`` folders have and no other folder has."""
    unclosed: tuple[Path, ...] = ()
    """Logs that retention deletes unless their indexes are rebuilt."""

    def records(self) -> Iterator[tuple[str, int, dict[str, Any]]]:
        """The metadata records to append: name, version, fields."""
        if self.aborts:
            yield "AbortTransactionRecord", 0, {"reason": "the log ended inside the transaction"}
        yield from mended_records(self.mending, self.partition_version)
        fields = {"broker_id": -1, "broker_epoch": -1, "next_producer_id": self.next_producer_id}
        yield "ProducerIdsRecord", 0, fields

    @property
    def phrases(self) -> tuple[tuple[str, str], ...]:
        """What has to be agreed to, each with its reason."""
        lost = "unknown" if isinstance(self.lost, Unknown) else f"{self.lost:,}"
        abandon = f" and abandon {', '.join(self.missing)}" if self.missing else ""
        said = [(f"controller {self.request.voter.node} lose {lost}{abandon}", "")]
        if self.mending.partitions:
            count = len(self.mending.partitions)
            noun = "partition" if count == 1 else "partitions"
            why = "its state in the copy is replaced by what data folders have"
            said.append((f"mend {count:,} {noun}", why))
        for name, topic_id in self.mending.replaced.items():
            why = f"its id in the copy is {kafka_id(topic_id)}; folders have a newer topic"
            said.append((f"replace topic {name}", why))
        why = "its folders are left, as another topic has its name"
        said += [(f"give up topic {one}", why) for one in self.mending.rivals]
        why = "only folders that end in -stray have them"
        for topic, number in self.stray_records.items():
            records = "unknown" if isinstance(number, Unknown) else f"{number:,}"
            said.append((f"give up {records} records of {topic} in strays", why))
        if self.cuts:
            noun = "log" if len(self.cuts) == 1 else "logs"
            why = "they end after those of the ISR, and brokers truncate them"
            said.append((f"truncate {len(self.cuts):,} {noun}", why))
        if self.strays:
            noun = "stray" if len(self.strays) == 1 else "strays"
            said.append((f"leave {len(self.strays):,} {noun}", "brokers will rename the folders"))
        why = "something listens there or connecting timed out: make sure that this node is off"
        said += [(f"ignore {node}", why) for node in self.listening]
        said += [(f"give up {fork}", "another copy parts from the best one") for fork in self.forks]
        why = "records after the damage are not read"
        said += [(f"give up {damaged}", why) for damaged, _ in self.damaged]
        return tuple(said)

    @property
    def loss(self) -> str:
        """How many records of the best copy are given up, and the first of their changes."""
        if isinstance(self.lost, Unknown):
            return f"unknown: {self.lost.reason}"
        changes = "; ".join(self.lost_changes[:3])
        more = f" and {len(self.lost_changes) - 3:,} more changes" if self.lost_changes[3:] else ""
        noun = "record" if self.lost == 1 else "records"
        return f"{self.lost:,} {noun} of the best copy{f': {changes}' if changes else ''}{more}"

    def document(self) -> dict[str, Any]:
        """The plan as JSON has it, with its digest."""
        lost = None if isinstance(self.lost, Unknown) else self.lost
        strays = [{"path": one.path, "why": one.why} for one in self.strays]
        damaged = [f"{copy}: {damage}" for copy, damage in self.damaged]
        said = {"changes": self.lost_changes, "strays": strays, "forks": self.forks}
        said |= {"damaged": damaged, "truncated": self.cuts}
        content: dict[str, Any] = _plain(
            {
                "schema": SCHEMA,
                "cluster_id": self.cluster_id,
                "request": {**self.request._asdict(), "voter": self.request.voter._asdict()},
                "inputs": self.inputs,
                "dynamic": self.dynamic,
                "log_end": self.copy.end.offset,
                "epoch": self.epoch,
                "records": [
                    {"record": name, "version": version, "fields": fields}
                    for name, version, fields in self.records()
                ],
                "nodes": [{**one._asdict(), "name": one.name} for one in self.nodes],
                "mended": [f"{one.partition}: {one.why}" for one in self.mending.partitions],
                "lost": {"records": lost, **said},
                "ends": self.ends,
                "strays_before": self.strays_before,
                "missing": self.missing,
                "unknown": self.unknown,
                "unclosed": self.unclosed,
                "consent": [phrase for phrase, _ in self.phrases],
            }
        )
        return {**content, "digest": digest_of(content)}


def _plain(value: Any) -> Any:
    """*value* as JSON has it."""
    match value:
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case UUID():
            return kafka_id(value)
        case Path():
            return str(value)
    return value


def make_plan(
    sources: Sequence[str],
    voter: str,
    copy: str | None = None,
    go_on: Callable[[], object] = lambda: None,
    ask: Ask = lambda *_: (),
    *,
    without_strays: bool = False,
) -> QuorumPlan:
    """A plan from the folders at *sources*; *voter* is ``N`` or ``N@HOST:PORT``.

    *ask* looks which nodes of the chosen copy answer. *without_strays*: what folders have that
    brokers renamed to ``-stray`` is given up.

    Raises:
        UsageError: as `inspect_copies`; the voter is not a controller, or where it listens is not
            known.
        Refused: a node runs that must not, or the copy cannot be brought back.
    """
    found = look(sources, copy, go_on, ask)
    same = [one for one in found.copies if one.fork and one.fork.same_records]
    if same and copy is None:
        raise Refused(
            f"{found.copies[0].copy.path} and {same[0].copy.path} have the same records at one "
            "offset, at different epochs. No CRC covers an epoch, so one of the two is damaged: "
            "look at both with quorum inspect, and choose with --copy."
        )
    if found.formatted and copy is None:
        raise Refused(f"{found.formatted} Choose with --copy.")
    chosen = f"log:{found.chosen.copy.path}"
    new = _voter(voter, found.state if isinstance(found.state, Mapping) else {})
    absolute = tuple(f"log:{one.path}" for one in found.named)
    return plan_of(found, QuorumRequest(absolute, chosen, new, now_ms(), without_strays))


def look(
    sources: Sequence[str], copy: str | None, go_on: Callable[[], object], ask: Ask
) -> QuorumInspection:
    """What is in the folders, and which of their nodes answer. Raises as `inspect_copies`."""
    found = inspect_with_strays(sources, copy, go_on)
    if isinstance(found.state, Unknown):
        return found
    return replace(found, answering=ask(found.state, found.cluster_id))


def _voter(text: str, state: Mapping[Key, Any]) -> NewVoter:
    asked = _VOTER.fullmatch(text)
    if asked is None or int(asked[1]) >= 2**31 or not 0 < int(asked[3] or 1) < 2**16:
        raise UsageError(f"--voter {text!r} is neither N nor N@HOST:PORT: write it so.")
    node, host, port = int(asked[1]), asked[2], asked[3]
    known = {key[1]: one for key, one in state.items() if key[0] == "controller"}
    own: ControllerRegistration | None = known.get(node)
    listed = own.endpoints if own else next((one.endpoints for one in known.values()), ())
    listener = listed[0][0] if listed else LISTENER
    if host is None:
        if own is None or not own.endpoints:
            raise UsageError(
                f"The metadata does not say where controller {node} listens: write "
                f"--voter {node}@HOST:PORT with the address of its controller listener."
            )
        host, port = own.endpoints[0][1], str(own.endpoints[0][2])
    while kafka_id(directory := uuid4()).startswith("-"):
        pass
    return NewVoter(node, host, int(port), listener, directory)


def plan_of(found: QuorumInspection, request: QuorumRequest) -> QuorumPlan:
    """The plan for what was *found*. Raises UsageError, Refused."""
    chosen, best, state = found.chosen, found.copies[0], found.state
    if isinstance(state, Unknown):
        raise Refused(f"{chosen.copy.path} cannot be brought back: {state.reason}")
    if isinstance(found.cluster_id, Unknown):
        raise Refused("No folder has a meta.properties with the cluster id: name one that has.")
    brokers: dict[int, BrokerRegistration] = {
        key[1]: one for key, one in state.items() if key[0] == "broker"
    }
    if request.voter.node in brokers:
        raise UsageError(
            f"Node {request.voter.node} is a broker: choose a controller, or a new id."
        )
    if isinstance(found.data, Unknown):
        raise Refused(f"The data folders cannot be compared: {found.data.reason}")
    if found.renamed and not request.without_strays:
        raise Refused(
            f"{stray_words(found.renamed)}. Run breakglass quorum strays with the same folders, do "
            "what it says, and plan again; or give these records up with --give-up-strays."
        )
    copies = [one.copy for one in found.copies]
    directories = {one.path: known for one in found.named if (known := _uuid(one.directory_id))}
    # The logs of a broker that runs go on; it runs by metadata that the copy has.
    running = found.running
    whole = {
        broker
        for broker, one in brokers.items()
        if one.log_dirs and {*one.log_dirs} <= {*directories.values()} and broker not in running
    }
    data = found.data
    ended = [one for one in data.found if one.broker not in running] if data else []
    deleted = {topic for one in found.copies if one.proved for topic in one.copy.deleted}
    copy_ms = chosen.copy.newest_ms if isinstance(chosen.copy.newest_ms, int) else 0
    mending = mend(state, ended, whole, directories, deleted, copy_ms)
    final = mending.applied_to(state)
    furthest = _furthest(ended, final)
    # The voters before the loss, by the best copy that names any.
    sets = [one.voters for one in copies if isinstance(one.voters, VoterSet)]
    voters = sets[0].ids if sets else ()
    if found.unknown and mending.partitions:
        offset, name = found.unknown[0]
        raise Refused(
            f"Data folders are newer than the copy, and its record at offset {offset:,}, a {name}, "
            "cannot be decoded: use a later release of Breakglass."
        )
    _require_stopped(found, mending, voters, brokers)
    epochs = [one.quorum_epoch for one in copies if isinstance(one.quorum_epoch, int)]
    epochs += [snapshot.epoch for one in copies for snapshot in one.snapshots]
    epoch = EPOCHS_ABOVE + max([*(one.end.epoch for one in copies), *epochs])
    if epoch > MOST_EPOCH:
        raise Refused(f"Epoch {epoch:,} is too near to the largest that Kafka has: get help.")
    largest = data.largest_producer_id if data and data.largest_producer_id is not None else -1
    used = max(state.get(("producer ids",), 0), found.producer_id, largest + 1)
    lost: int | Unknown = best.copy.end.offset - chosen.shared if chosen is not best else 0
    if chosen.copy.log_damage:
        lost = Unknown(f"records after offset {chosen.copy.end.offset:,} are damaged or not read")
    elif chosen.relation is Relation.UNCOMPARED:
        lost = Unknown("it cannot be compared with the best copy")
    level = state.get(("feature", "metadata.version"), 0)
    missing = tuple(_missing(found, voters, brokers, directories.values()))
    return QuorumPlan(
        request=request,
        cluster_id=found.cluster_id,
        copy=chosen.copy,
        dynamic=isinstance(chosen.copy.voters, VoterSet) and chosen.copy.voters.dynamic,
        epoch=epoch,
        next_producer_id=-(-used // BLOCK) * BLOCK + PRODUCER_IDS_ABOVE,
        aborts=found.in_transaction,
        mending=mending,
        partition_version=1 if level >= DIRECTORIES_SINCE else 0,
        nodes=tuple(_nodes(found, mending, request.voter, voters, brokers, missing)),
        inputs=tuple(_inputs(found)),
        ends={
            str(one.partition): {
                "topic_id": kafka_id(one.topic_id),
                "start": one.start,
                "end": one.end.offset,
                "epoch": one.end.epoch,
                "newest_ms": one.newest_ms,
            }
            for one in furthest.values()
        },
        cuts=tuple(
            f"{one.path}: b{one.broker} ends at {one.end.offset:,} (epoch {one.end.epoch}), the "
            f"ISR at {leads.end.offset:,} (epoch {leads.end.epoch})"
            for one in ended
            if (leads := furthest.get((one.topic_id, one.partition.partition)))
            and one.broker in (which := final[one.topic_id, one.partition.partition]).replicas
            and leads.broker in which.isr
            and one.end.offset > leads.end.offset
        ),
        strays_before=tuple(stray for one in found.named for stray in one.strays),
        lost=lost,
        lost_changes=tuple(
            f"{one.kind}: {one.what}"
            for lack in found.lacks
            if lack.compared is chosen and not isinstance(lack.changes, Unknown)
            for one in lack.changes
            if _stays_lost(one, mending, final)
        ),
        forks=tuple(
            f"{_name(one.copy.node, brokers)} from {one.fork.offset if one.fork else 0:,} "
            f"to {one.copy.end.offset:,}{_with(one.copy) if one.apart else ''}"
            for one in found.copies
            if one.relation in (Relation.FORK, Relation.UNCOMPARED) and one is not chosen
        ),
        damaged=tuple(
            (
                f"{_name(one.copy.node, brokers)} after its damage at {one.copy.end.offset:,}",
                f"{one.copy.path}: {damage}",
            )
            for one in found.copies
            if (damage := one.copy.log_damage)
        ),
        strays=tuple(_strays(data, mending, final)) if data else (),
        listening=tuple(f"{one.name} at {one.address}" for one in found.answering if not one.asked),
        missing=missing,
        unknown=tuple(_unknown(found, state, mending, everything=whole == {*brokers})),
        stray_records=counted(found.renamed),
        unclosed=data.unclosed if data else (),
    )


def _stays_lost(
    change: SaidChange, mending: Mending, final: Mapping[tuple[UUID, int], PartitionMetadata]
) -> bool:
    """Whether what is appended leaves undone a change that the chosen copy lacks."""
    those = {*change.partitions}
    if change.kind in (ChangeKind.TOPIC_MADE, ChangeKind.TOPIC_GROWN):
        return not those <= {*final}
    if change.kind is ChangeKind.TOPIC_DELETED:
        return bool(those & {*final})
    if change.kind is ChangeKind.ISR:
        return not those <= {(one.topic_id, one.partition.partition) for one in mending.partitions}
    return change.kind is not ChangeKind.PRODUCER_IDS


def _uuid(text: object) -> UUID | None:
    """The id that Kafka writes as *text*; None: it is none."""
    try:
        return UUID(bytes=base64.urlsafe_b64decode(f"{text}=="))
    except (ValueError, binascii.Error):
        return None


def _name(node: int | Unknown, brokers: Mapping[int, BrokerRegistration]) -> str:
    if isinstance(node, Unknown):
        return "a node without an id"
    return f"{'b' if node in brokers else 'c'}{node}"


def _with(copy: MetadataCopy) -> str:
    """What the cluster of a copy that is given up has."""
    state = state_of(copy)
    topics = sorted(name for key, name in state.items() if key[0] == "topic")
    settings = sum(len(one) for key, one in state.items() if key[0] == "settings")
    users = sorted({str(key[1]) for key in state if key[0] == "scram"})
    own = _counted("topic", len(topics), topics), _counted("setting", settings)
    return f" with {', '.join(own)} and {_counted('user', len(users), users)}"


def _counted(noun: str, number: int, names: Sequence[str] = ()) -> str:
    more = ", ..." if names[SHOWN:] else ""
    named = f" ({', '.join(names[:SHOWN])}{more})" if names else ""
    return f"{number:,} {noun}{'s' * (number != 1)}{named}"


def _require_stopped(
    found: QuorumInspection,
    mending: Mending,
    voters: Sequence[int],
    brokers: Mapping[int, BrokerRegistration],
) -> None:
    """Running brokers may go on if they have nothing that the new voter lacks (Q7)."""
    for live in found.answering:
        if live.asked and not live.broker:
            raise Refused(
                f"{live.name} answers at {live.address}. If a majority can run, start it: "
                "breakglass quorum names the others. If not, stop this controller, and plan again."
            )
        if isinstance(live.applied, int) and live.applied > found.chosen.copy.end.offset:
            raise Refused(
                f"{live.name} runs at {live.address} and has the metadata up to offset "
                f"{live.applied:,}; the chosen copy ends at {found.chosen.copy.end.offset:,}. Copy "
                "the folder of this broker and name it, or stop every broker. Then plan again."
            )
    for node in sorted({*brokers} & found.running - {one.copy.node for one in found.copies}):
        raise Refused(
            f"b{node} runs, and what it knows of the metadata was not named: name its metadata "
            "folder, or stop every broker. Then plan again."
        )
    for one in found.copies:
        copy = one.copy
        if copy.node not in found.running:
            continue
        name = _name(copy.node, brokers)
        if copy.node in voters or copy.node not in brokers:
            raise Refused(f"{name} runs on {copy.path}: stop it, and plan again.")
        included = one.shared == copy.end.offset <= found.chosen.shared and one.proved
        if not included or not found.chosen.proved:
            raise Refused(
                f"{name} runs, and has records that the chosen copy lacks: it would end when the "
                "new voter leads. Stop every broker, and plan again."
            )
        if mending.partitions:
            raise Refused(
                f"{name} runs, so its logs change while partitions are mended by them: stop every "
                "broker, and plan again."
            )


def _nodes(
    found: QuorumInspection,
    mending: Mending,
    voter: NewVoter,
    voters: Sequence[int],
    brokers: Mapping[int, BrokerRegistration],
    missing: Sequence[str],
) -> Iterator[NodeStep]:
    # The best of a node's copies, if it has several.
    copies = {one.copy.node: one for one in reversed(found.copies)}
    data: dict[int, list[Path]] = {}
    for folder in found.named:
        if isinstance(folder.node, int) and folder.path.name != "__cluster_metadata-0":
            data.setdefault(folder.node, []).append(folder.path)
    own = copies.get(voter.node)
    yield NodeStep(
        voter.node,
        False,
        NodeAction.PROMOTE,
        "it leads alone, from the promoted folder",
        own.copy.path if own else None,
    )
    leads = Counter(one.after.leader for one in mending.partitions)
    state = found.state if isinstance(found.state, Mapping) else {}
    # One whose disk is lost would lead with an empty log: the others may make that impossible.
    last = {broker for broker in brokers if lacks_data(f"b{broker}", missing)}
    for broker in sorted(brokers, key=lambda broker: (broker in last, -leads[broker], broker)):
        action, reason = _broker_action(copies.get(broker), found, mending)
        path = copies[broker].copy.path if broker in copies else None
        combined = broker in voters or ("controller", broker) in state
        yield NodeStep(broker, True, action, reason, path, tuple(data.get(broker, ())), combined)
    others = {*voters, *(node for node in copies if isinstance(node, int))}
    for node in sorted(others - {*brokers, voter.node}):
        yield NodeStep(
            node,
            False,
            NodeAction.DO_NOT_START,
            "its folder is of the old quorum",
            copies[node].copy.path if node in copies else None,
        )


def _broker_action(
    copy: ComparedCopy | None, found: QuorumInspection, mending: Mending
) -> tuple[NodeAction, str]:
    chosen = found.chosen
    if copy is None:
        return NodeAction.REPLACE, "its folder was not read and may have other records"
    if copy.copy.node in found.running:
        return NodeAction.LEAVE_RUNNING, "all that it has is in the promoted folder"
    if copy.copy.log_damage:
        return NodeAction.REPLACE, "its log is damaged"
    if not copy.proved or copy.shared > chosen.shared or not chosen.proved:
        return NodeAction.REPLACE, "it has records that the promoted folder does not have"
    if copy.snapshots_past(chosen.shared):
        return NodeAction.REPLACE, "its newest snapshot is past the chosen copy, and would stay"
    if mending.partitions:
        return NodeAction.REPLACE, "it must know the mended partitions before it loads its logs"
    if copy.shared < chosen.shared:
        return NodeAction.REPLACE, "it ends before the promoted folder does"
    return NodeAction.KEEP, "it has what the promoted folder has"


def _inputs(found: QuorumInspection) -> Iterator[dict[str, Any]]:
    for one in found.copies:
        copy = one.copy
        last = copy.batches[-1] if len(copy.batches) else None
        yield {
            "path": str(copy.path),
            "node": copy.node if isinstance(copy.node, int) else None,
            "log_end": copy.end.offset,
            "last_epoch": copy.end.epoch,
            "last_crc": last and last.crc,
            "quorum_epoch": copy.quorum_epoch if isinstance(copy.quorum_epoch, int) else None,
            "snapshots": [snapshot.path.name for snapshot in copy.snapshots],
            "running": copy.running,
        }
    for node in found.answering:
        yield {"path": f"{node.name} at {node.address}", "asked": node.asked}
    running = found.running
    if isinstance(found.data, DataFindings):
        rows: dict[str, list[Any]] = {}
        for replica in found.data.found:
            # Running brokers go on appending records; nothing is decided by their ends.
            ends = None if replica.broker in running else [*replica.end, replica.epoch]
            unclosed = replica.path in found.data.unclosed
            named = (str(replica.partition), kafka_id(replica.topic_id))
            row: list[Any] = [*named, ends, unclosed]
            if ends is not None:
                row += [_written_ns(replica.path)]
            rows.setdefault(str(replica.path.parent), []).append(row)
        for path, listed in sorted(rows.items()):
            yield {"path": path, "replicas": len(listed), "ends": digest_of(sorted(listed))}


def _written_ns(folder: Path) -> int:
    """When a segment in *folder* was written last: its content may change, and not its end."""
    with storage_errors(str(folder)):
        return max((one.stat().st_mtime_ns for one in folder.glob("*.log")), default=0)


def _furthest(
    found: Sequence[FoundReplica], final: Mapping[tuple[UUID, int], PartitionMetadata]
) -> dict[tuple[UUID, int], FoundReplica]:
    """The longest log of the ISR of each partition; if no member was read, of its replicas."""
    longest: dict[tuple[UUID, int], tuple[bool, LogPosition, FoundReplica]] = {}
    for one in found:
        key = one.topic_id, one.partition.partition
        state = final.get(key)
        if state is not None and one.broker in state.replicas:
            rank = (one.broker in state.isr, one.end, one)
            longest[key] = max(rank, longest.get(key, rank))
    return {key: one for key, (_, _, one) in longest.items()}


def _strays(
    data: DataFindings, mending: Mending, final: Mapping[tuple[UUID, int], PartitionMetadata]
) -> Iterator[StrayFolder]:
    found = [StrayFolder(*one[:3], "", one.topic_id) for one in data.found]
    # Those whose log could not be read are among the second alone.
    for stray in {one.path: one for one in (*found, *data.strays)}.values():
        state = final.get((stray.topic_id, stray.partition.partition))
        if state is None or (stray.broker is not None and stray.broker not in state.replicas):
            yield stray._replace(why=mending.left.get(stray.path, stray.why))


def _missing(
    found: QuorumInspection,
    voters: Sequence[int],
    brokers: Mapping[int, BrokerRegistration],
    directories: Collection[UUID],
) -> Iterator[str]:
    """Whose folders were not named: they may have what no folder here has."""
    copies = {one.copy.node for one in found.copies}
    for node in sorted({*voters, *brokers} - copies):
        yield _name(node, brokers)
    known = set(directories)
    data = found.data.found if isinstance(found.data, DataFindings) else ()
    with_data = {one.broker for one in data}
    for broker, one in sorted(brokers.items()):
        absent = [directory for directory in one.log_dirs if directory not in known]
        if len(absent) == len(one.log_dirs) and (absent or broker not in with_data):
            yield f"data of b{broker}"
        else:
            yield from (f"log directory {kafka_id(one)} of b{broker}" for one in absent)


def _unknown(
    found: QuorumInspection,
    state: Mapping[Key, Any],
    mending: Mending,
    *,
    everything: bool,
) -> Iterator[str]:
    """*everything*: the data folders of all brokers were read."""
    yield (
        "Kafka does not store the metadata's high watermark: the last records of the copy may not "
        "have been committed."
    )
    if found.unknown:
        yield f"Records that this release cannot decode: {len(found.unknown):,}."
    if found.data is None:
        yield (
            "No data folder was named: strays, old ISRs and producer ids that are in logs are "
            "unknown."
        )
        return
    data = found.data
    assert isinstance(data, DataFindings)
    if mending.partitions:
        yield (
            "Data folders do not have settings, ACLs, users, quotas and deletions of topics: these "
            "are as in the copy."
        )
    new = [name for name, _ in mending.topics]
    if new:
        yield (
            f"Topics that the copy does not know: {len(new):,} ({', '.join(new[:5])}). If one was "
            "deleted, and no copy shows that, it comes back."
        )
    with_folder = {one.topic_id for one in data.found}
    bare = [
        name
        for key, name in state.items()
        if key[0] == "topic" and key[1] not in with_folder and name not in mending.replaced
    ]
    if bare:
        those = f"{len(bare):,} ({', '.join(sorted(bare)[:5])})"
        if everything:
            yield (
                f"Topics without any folder: {those}. They come back empty; they may have been "
                "deleted."
            )
        else:
            yield (
                f"Topics without a folder among those that were named: {those}. If no other log "
                "directory has one, they come back empty."
            )
    made = [one for one in mending.partitions if one.before is None]
    if made:
        yield (
            f"How many replicas the new partitions had: {len(made):,}. They get the brokers that "
            "have a folder of them. Compare their replication factor with that of the other "
            "topics, and reassign."
        )
    if data.unread and not found.running:
        yield f"Files and folders that could not be read: {len(data.unread):,} ({data.unread[0]})."


def write_plan(path: Path, text: str) -> None:
    """Write the document of a plan to a new file.

    Raises:
        UsageError: the file exists.
        StorageError: it cannot be written.
    """
    if path.exists():
        raise UsageError(f"{path} exists already and is kept: name another file.")
    with storage_errors(str(path)), open(path, "x", opener=open_new, encoding="ascii") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(file.fileno())


def read_request(path: Path) -> tuple[QuorumRequest, dict[str, Any]]:
    """The request of the plan at *path*, and the whole document.

    Raises:
        StorageError: it cannot be read.
        MalformedInput: it is no plan, or was changed since it was written.
        UnsupportedSchema: a later release wrote it.
    """
    document = parse_json(read_text(path), str(path))
    if not isinstance(document, dict) or not isinstance(document.get("schema"), int):
        raise MalformedInput(f"{path} is no plan of breakglass quorum plan.")
    if document["schema"] != SCHEMA:
        raise UnsupportedSchema(
            f"{path} has schema version {document['schema']} and this release knows {SCHEMA}: use "
            "the release that wrote it."
        )
    content = {name: value for name, value in document.items() if name != "digest"}
    if document.get("digest") != digest_of(content):
        raise MalformedInput(f"{path} was changed after it was written: make the plan again.")
    try:
        asked = document["request"]
        voter = asked["voter"]
        directory = _uuid(voter["directory_id"]) or UUID(int=0)
        new = NewVoter(voter["node"], voter["host"], voter["port"], voter["listener"], directory)
        made = asked["made_at_ms"], asked["without_strays"]
        request = QuorumRequest(tuple(asked["sources"]), asked["copy"], new, *made)
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedInput(f"{path} is no plan of breakglass quorum plan ({error}).") from error
    return request, document
