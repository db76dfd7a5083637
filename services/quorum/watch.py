"""Judges a cluster that comes back by a plan: what went wrong, and what is still awaited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from breakglass.services.clock import now_ms
from breakglass.services.errors import BreakglassError, Unreachable
from breakglass.services.kafka.cluster.describe_cluster import require_same_cluster
from breakglass.services.kafka.cluster.log_dirs import read_broker_log_dirs
from breakglass.services.kafka.cluster.settings import TopicValues, read_topic_values
from breakglass.services.kafka.replicas.list_offsets import (
    DEBUGGING_REPLICA,
    EARLIEST,
    EpochAnswer,
    read_epoch_ends,
    read_leader_ends,
)
from breakglass.services.model import TopicPartition, Unknown, kafka_id
from breakglass.services.patience import LOOK
from breakglass.services.quorum.metadata_copy import METADATA_FOLDER, meta_properties
from breakglass.services.snapshot import ClusterSnapshot

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.kafka.wire.deadline import Deadline

Ends = Mapping[TopicPartition, int | Unknown]


@dataclass(frozen=True, slots=True)
class ReturnProgress:
    """How far a cluster came back."""

    wrong: tuple[str, ...] = ()
    awaited: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    """Brokers whose log directories are not on this machine: no stray was looked for there."""
    confirmed: tuple[str, ...] = ()
    """What is as the plan has it, in the order of the steps."""

    @property
    def ended(self) -> bool:
        """Whether another look is of no use."""
        return bool(self.wrong) or not self.awaited

    @property
    def back(self) -> bool:
        """Whether all is as the plan has it, and strays were looked for on every broker."""
        return not (self.wrong or self.awaited or self.unseen)


def look_at_return(
    client: ReadClient, plan: Mapping[str, Any], deadline: Deadline
) -> ReturnProgress:
    """The progress now, by the plan's document and the brokers' log directories on this machine.

    Raises:
        WrongCluster: the addresses lead to another cluster.
    """
    try:
        seen = client.snapshot(deadline, with_settings=False)
        led = [one for one in seen.partitions if one.leader is not None]
        named = [one for one in led if str(one.partition) in plan["ends"]]
        ends = read_leader_ends(client.sender, named, deadline, replica_id=DEBUGGING_REPLICA)
        for leader in {one.leader for one in named if one.leader is not None}:
            # Records that were written since make a log longer, but not that epoch.
            asked = {
                one.partition: plan["ends"][str(one.partition)]["epoch"]
                for one in named
                if one.leader == leader and plan["ends"][str(one.partition)]["end"]
            }
            for partition, answer in read_epoch_ends(
                client.sender, leader, asked, deadline
            ).items():
                end = ends.get(partition)
                if isinstance(answer, EpochAnswer) and answer.epoch_end and isinstance(end, int):
                    ends[partition] = min(end, answer.epoch_end.end)
        starts = read_leader_ends(client.sender, named, deadline, timestamp=EARLIEST)
        topics = {one.topic for one, start in starts.items() if _gone(plan, one, start)}
        settings = read_topic_values(client.sender, sorted(topics), deadline) if topics else {}
    except Unreachable:
        strays, unseen = looked_for(plan, {})
        silent = ("The brokers do not answer.",)
        return ReturnProgress(tuple(_strays(plan, strays)), silent, tuple(unseen))
    require_same_cluster(plan["cluster_id"], seen.cluster_id)
    strays, unseen = looked_for(plan, _log_dirs(client, plan, seen, deadline))
    kept = {
        topic: values.valid for topic, values in settings.items() if isinstance(values, TopicValues)
    }
    found = judge_return(plan, seen, ends, strays, starts, kept, now_ms())
    return replace(found, unseen=tuple(unseen))


def _log_dirs(
    client: ReadClient, plan: Mapping[str, Any], seen: ClusterSnapshot, deadline: Deadline
) -> dict[int, list[Path]]:
    """The log directories that each live broker of the plan uses, if it says so."""
    found: dict[int, list[Path]] = {}
    for broker in {one["node"] for one in plan["nodes"] if one["broker"]} & {*seen.live}:
        with suppress(BreakglassError):
            listed = read_broker_log_dirs(client.sender, broker, deadline.sooner(LOOK))
            found[broker] = [Path(one.path) for one in listed]
    return found


def looked_for(
    plan: Mapping[str, Any], used: Mapping[int, Sequence[Path]]
) -> tuple[dict[str, str], list[str]]:
    """The stray folders on this machine, and the brokers some of whose directories are elsewhere.

    Of a stray in a directory that the plan read a copy of, the key is its name there. A broker
    that did not say which directories it has *used* has those of the plan.
    """
    strays: dict[str, str] = {}
    unseen: list[str] = []
    known = {*plan["strays_before"], *(one["path"] for one in plan["lost"]["strays"])}
    for node in plan["nodes"]:
        paths = used.get(node["node"]) or [*map(Path, node["data"])]
        # Another broker may have a folder of that name here.
        here = [
            path
            for path in paths
            if meta_properties(path / METADATA_FOLDER)["node.id"] == str(node["node"])
        ]
        for folder in (one for path in here for one in path.glob("*-stray")):
            names = (f"{data}/{folder.name}" for data in node["data"])
            same = (one for one in names if {one, one.rpartition(".")[0]} & known)
            strays[next(same, str(folder))] = str(folder)
        if node["broker"] and not (here and len(here) == len(paths)):
            unseen.append(node["name"])
    return strays, unseen


def judge_return(
    plan: Mapping[str, Any],
    seen: ClusterSnapshot,
    ends: Ends,
    strays: Mapping[str, str],
    starts: Ends = MappingProxyType({}),
    settings: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    at_ms: int = 0,
) -> ReturnProgress:
    """The progress at *at_ms*, by what brokers say and which *strays* are on disk.

    The keys of *strays* are their names in the plan. *settings* has those of each topic with a log
    that begins later than on disk.
    """
    wrong, awaited, confirmed = list(_strays(plan, strays)), [], []
    voter, quorum = plan["request"]["voter"]["node"], seen.quorum
    if isinstance(quorum, Unknown) or quorum.leader is None:
        awaited.append("The controllers have no leader.")
    elif quorum.leader_epoch <= plan["epoch"] or voter not in {one.id for one in quorum.voters}:
        wrong.append(
            f"Controller {quorum.leader} leads at epoch {quorum.leader_epoch:,}, not controller "
            f"{voter} above epoch {plan['epoch']:,}: stop it, and stop every broker."
        )
    else:
        confirmed.append(f"Controller {quorum.leader} leads at epoch {quorum.leader_epoch:,}.")
    live = set(seen.live)
    absent = [one["name"] for one in plan["nodes"] if one["broker"] and one["node"] not in live]
    if absent:
        awaited.append(f"Brokers that are fenced or not registered: {', '.join(absent)}.")
    present = [one["name"] for one in plan["nodes"] if one["broker"] and one["node"] in live]
    if present:
        confirmed.append(f"Brokers that are registered and not fenced: {', '.join(present)}.")
    offline = sum(one.leader is None for one in seen.partitions)
    out = sum(set(one.isr) != set(one.assignment) for one in seen.partitions)
    if offline or out:
        awaited.append(f"Partitions without a leader: {offline:,}; with replicas to sync: {out:,}.")
    confirmed.append(f"Partitions with every replica in the ISR: {len(seen.partitions) - out:,}.")
    ids = {str(one.partition): kafka_id(one.topic_id) for one in seen.partitions}
    shown = {name for name, one in plan["ends"].items() if ids.get(name) == one["topic_id"]}
    hidden = plan["ends"].keys() - shown
    if hidden:
        awaited.append(f"Partitions that brokers do not show: {len(hidden):,} ({min(hidden)}).")
    whole = 0
    for partition, end in ends.items():
        before = plan["ends"][str(partition)]["end"] if str(partition) in shown else 0
        whole += isinstance(end, int) and end >= before and str(partition) in shown
        if isinstance(end, int) and end < before:
            wrong.append(
                f"{partition} has the records of its longest log on disk up to {end:,} only, and "
                f"that log ended at {before:,}: stop every broker before the others cut their logs."
            )
    for partition, start in starts.items():
        gone = _gone(plan, partition, start) if str(partition) in shown else 0
        before = plan["ends"][str(partition)]
        if gone and not _expired(before, start, settings.get(partition.topic, {}), at_ms):
            wrong.append(
                f"{partition} began at {before['start']:,} on disk and begins at {start:,} now: "
                f"{gone:,} records are gone, and retention does not explain it. Unless a client "
                "deleted them, stop every broker before others lose theirs."
            )
    total = len(plan["ends"])
    confirmed.append(f"Logs with the records of their longest log on disk: {whole:,} of {total:,}.")
    return ReturnProgress(tuple(wrong), tuple(awaited), confirmed=tuple(confirmed))


def _gone(plan: Mapping[str, Any], partition: TopicPartition, start: int | Unknown) -> int:
    """How many offsets of the log on disk lie before *start*."""
    before = plan["ends"][str(partition)]
    if isinstance(start, Unknown) or "start" not in before:
        return 0
    return int(max(0, min(start, before["end"]) - before["start"]))


def _expired(
    before: Mapping[str, Any], start: int | Unknown, settings: Mapping[str, str], at_ms: int
) -> bool:
    """Whether retention may have deleted the records before *start*."""
    some = isinstance(start, int) and start < before["end"]
    if "delete" not in settings.get("cleanup.policy", "delete"):
        return False
    kept_ms = int(settings.get("retention.ms", -1))
    kept_bytes = int(settings.get("retention.bytes", -1))
    # The last record is deleted by its age only.
    aged = kept_ms >= 0 and (some or before["newest_ms"] + kept_ms < at_ms)
    return aged or (some and (kept_bytes >= 0 or not settings))


def _strays(plan: Mapping[str, Any], strays: Mapping[str, str]) -> Iterator[str]:
    """New stray folders, but for those that the plan leaves."""
    left = {one["path"] for one in plan["lost"]["strays"]}
    for path in sorted({*strays} - {*plan["strays_before"]}):
        if path.rpartition(".")[0] not in left:
            yield f"{strays[path]} is new: stop that broker; the plan did not expect it."
