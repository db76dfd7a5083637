"""Elections that cost records, as sessions saw them: found, kept in the state folder, and worded.

What replicas reported while a partition was offline is compared with the log of its leader
afterwards. Log matching makes that exact: see `services.recovery.judgement.lineage`.

Observations are kept in a file beside the journals, without a lock. A journal says what was done
from here and locks its cluster. An observation changes nothing, so any number of read-only sessions
may write at once; each line is written whole. Two observations of the same election count once, and
the newest line is valid.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from breakglass.services.clock import now_ms
from breakglass.services.errors import StorageError
from breakglass.services.guard.lock import append_lines, clusters_in, file_name, operator
from breakglass.services.incident.row import span_of, span_text
from breakglass.services.model import (
    EpochHistory,
    PartitionEvidence,
    PartitionState,
    ReplicaLog,
    Role,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.judgement.inputs import named
from breakglass.services.recovery.judgement.lineage import divergence
from breakglass.services.recovery.judgement.ranking import holds_records, log_rank
from breakglass.services.recovery.remembered.recollection import ElectionKey
from breakglass.services.regular_file import read_regular
from breakglass.services.state_folder import state_folder
from breakglass.services.words.moments import moment_of


class LogFate(StrEnum):
    """What became of a log with records that the new leader lacks."""

    RUNNING = "running"
    """Its broker runs and has not truncated it yet."""
    DOWN = "down"
    """Its broker does not answer: the log is as it was, as far as known."""
    TRUNCATED = "truncated"


@dataclass(frozen=True, slots=True)
class ReplicaAhead:
    """A replica that had records which the new leader lacks."""

    broker: int
    log_end: int
    """The log end when it was last read before the election."""
    epoch: int | None
    """The last epoch in the log then; None: unknown."""
    kept: LogFate = LogFate.DOWN


@dataclass(frozen=True, slots=True)
class Witnessed:
    """What was read of a partition while it was offline."""

    state: PartitionState
    logs: tuple[ReplicaLog, ...]
    """The longest log that each replica reported; replicas that never answered are missing."""
    approximate: bool
    """Offsets are not records: the topic is, or may be, compacted."""


@dataclass(frozen=True, slots=True)
class ElectionSeen:
    """An election, not agreed to here, that left records out."""

    partition: TopicPartition
    topic_id: str
    leader: int
    leader_epoch: int
    seen_at_ms: int
    """When its leader was first seen: it was elected before that."""
    log_end: int
    """The end of the leader's log when it was elected."""
    empty: bool
    """The log of the new leader was empty."""
    best: int
    """The broker of the best log that was seen."""
    best_end: int
    missing: int | None
    """Records of the best log that the leader lacks; None: unknown."""
    approximate: bool
    holders: tuple[ReplicaAhead, ...]

    @property
    def key(self) -> ElectionKey:
        return self.topic_id, self.partition, self.leader_epoch

    @property
    def open(self) -> tuple[int, ...]:
        """Brokers that are not known to have truncated what the leader lacks."""
        return tuple(
            [holder.broker for holder in self.holders if holder.kept is not LogFate.TRUNCATED]
        )


def witnessed(evidence: PartitionEvidence, before: Sequence[ReplicaLog] = ()) -> Witnessed:
    """The logs in *evidence*, or those that replicas reported *before* where they were longer."""
    best: dict[int, ReplicaLog] = {}
    for log in (*before, *evidence.replicas):
        if isinstance(log.log_end, Unknown):
            continue
        if log.broker not in best or log_rank(log) >= log_rank(best[log.broker]):
            best[log.broker] = log
    approximate = evidence.settings.compacted is not False
    return Witnessed(evidence.state, tuple(best.values()), approximate)


def election_seen(
    before: Witnessed, now: PartitionState, leader: ReplicaLog, seen_at_ms: int
) -> ElectionSeen | None:
    """What the election of *leader* left out; None where it left out nothing that counts.

    Members of ISR and ELR are elected cleanly: what they lack past the high watermark was never
    promised. Not so a last known leader, which may come back with less than it had.
    """
    if now.leader is None or now.topic_id != before.state.topic_id:
        return None
    elected = as_elected(leader, before.state.leader_epoch)
    lacking = [log for log in before.logs if _lacks(elected, log)]
    grave = [log for log in lacking if _grave(before, now.leader, elected, log)]
    if not grave or isinstance(elected.log_end, Unknown):
        return None
    worst = max(grave, key=log_rank)
    return ElectionSeen(
        now.partition,
        str(now.topic_id),
        now.leader,
        now.leader_epoch,
        seen_at_ms,
        elected.log_end,
        not holds_records(elected),
        worst.broker,
        _end(worst),
        _missing(elected, worst),
        before.approximate,
        tuple(
            [
                _holder(holder)
                for holder in sorted(lacking, key=lambda log: log.broker)
                if holder.broker != now.leader
            ]
        ),
    )


def as_elected(leader: ReplicaLog, offline_epoch: int) -> ReplicaLog:
    """The log of *leader* as it was when elected, without what it wrote as a leader since."""
    history = leader.epochs
    if isinstance(history, Unknown) or isinstance(leader.log_end, Unknown):
        return leader
    older = tuple([range_ for range_ in history.ranges if range_.epoch <= offline_epoch])
    since = [range_.start for range_ in history.ranges if range_.epoch > offline_epoch]
    end = min(since, default=leader.log_end)
    return replace(leader, log_end=end, epochs=EpochHistory(older, history.complete_from))


def followed(seen: ElectionSeen, logs: Mapping[int, ReplicaLog | None]) -> ElectionSeen:
    """*seen* with the state of its holders, whose *logs* were read again; None: no answer."""
    holders = tuple(
        [
            replace(holder, kept=_kept(holder, logs[holder.broker]))
            if holder.broker in logs
            else holder
            for holder in seen.holders
        ]
    )
    return seen if holders == seen.holders else replace(seen, holders=holders)


def _kept(holder: ReplicaAhead, log: ReplicaLog | None) -> LogFate:
    """Truncated records do not come back."""
    if holder.kept is LogFate.TRUNCATED:
        return LogFate.TRUNCATED
    if log is None or isinstance(log.log_end, Unknown):
        return LogFate.DOWN
    return LogFate.RUNNING if _still_whole(holder, log) else LogFate.TRUNCATED


def _still_whole(holder: ReplicaAhead, log: ReplicaLog) -> bool:
    """Whether the last written epoch still reaches as far as before, whatever came after."""
    if holder.epoch is None or isinstance(log.epochs, Unknown):
        return isinstance(log.log_end, int) and log.log_end >= holder.log_end
    return any(
        range_.epoch == holder.epoch and range_.end >= holder.log_end
        for range_ in log.epochs.ranges
    )


def _holder(log: ReplicaLog) -> ReplicaAhead:
    epoch = log.last_written_epoch
    return ReplicaAhead(log.broker, _end(log), epoch if isinstance(epoch, int) else None)


def _lacks(elected: ReplicaLog, other: ReplicaLog) -> bool:
    """Whether *elected* is without records of *other*."""
    missing = _missing(elected, other)
    if missing is None:
        return log_rank(elected) < log_rank(other) or _end(elected) < _end(other)
    return missing > 0


def _missing(elected: ReplicaLog, other: ReplicaLog) -> int | None:
    """How many records of *other* the log of *elected* is without; None: unknown."""
    if not holds_records(other):
        return 0
    parting = divergence(other, elected)
    if isinstance(parting, Unknown):
        return None
    starts = [start for start in (other.log_start, elected.log_start) if isinstance(start, int)]
    if not holds_records(elected):
        starts = starts[:1]
    return max(0, _end(other) - max(parting, *starts, 0))


def _grave(before: Witnessed, leader: int, elected: ReplicaLog, other: ReplicaLog) -> bool:
    """Whether what *elected* lacks of *other* counts: it is the best log's, or committed."""
    parting, mark = divergence(other, elected), other.high_watermark
    committed = mark > parting if isinstance(parting, int) and isinstance(mark, int) else None
    clean = before.state.role(leader) in (Role.ISR, Role.ELR)
    if clean and committed is False and holds_records(elected):
        return False
    return bool(committed) or log_rank(other) == max(map(log_rank, before.logs))


def _end(log: ReplicaLog) -> int:
    return log.log_end if isinstance(log.log_end, int) else 0


MOST_TOPICS = 3
"""Brokers named in one sentence; the others are counted."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """An observation as a line of a list."""

    sentence: str
    seen_at_ms: int
    who: str
    acknowledged_by: str


def alarm_lines(seen: Iterable[ElectionSeen]) -> tuple[str, ...]:
    """A sentence for each group that fared alike; brokers that were elected EMPTY first."""
    return tuple(map(_sentence, _groups(seen)))


def sightings(observations: Iterable[Observation]) -> tuple[Sighting, ...]:
    """The same of *observations*, with who saw it and who acknowledged it; the newest first."""
    alike: dict[tuple[str, str], list[ElectionSeen]] = {}
    for observation in observations:
        alike.setdefault((observation.who, observation.acknowledged_by), []).append(
            observation.seen
        )
    found = [
        Sighting(_sentence(together), _first_seen(together), who, noted)
        for (who, noted), seen in alike.items()
        for together in _groups(seen)
    ]
    return tuple(sorted(found, key=lambda election: election.seen_at_ms, reverse=True))


def _groups(seen: Iterable[ElectionSeen]) -> list[list[ElectionSeen]]:
    """Elections that fared alike; a partition that fared so again is named once in its group."""
    groups: dict[tuple[object, ...], dict[tuple[str, TopicPartition], ElectionSeen]] = {}
    for one in sorted(
        seen, key=lambda one: (not one.empty, one.leader, one.partition, one.seen_at_ms)
    ):
        groups.setdefault(_alike(one), {}).setdefault((one.topic_id, one.partition), one)
    return [list(group.values()) for group in groups.values()]


def _first_seen(together: Sequence[ElectionSeen]) -> int:
    return min(election.seen_at_ms for election in together)


def clock_text(milliseconds: int) -> str:
    """``23:02:51Z``."""
    moment = moment_of(milliseconds)
    return moment if isinstance(moment, str) else f"{moment:%H:%M:%S}Z"


def _alike(election: ElectionSeen) -> tuple[object, ...]:
    kept = tuple([(holder.broker, holder.kept) for holder in election.holders])
    if election.empty:
        return True, election.leader, kept
    figures = (
        election.log_end,
        election.best,
        election.best_end,
        election.missing,
        election.approximate,
    )
    return False, election.leader, kept, election.topic_id, figures


def _sentence(together: Sequence[ElectionSeen]) -> str:
    first = together[0]
    seen_at = clock_text(_first_seen(together))
    if first.empty:
        topics: dict[str, list[ElectionSeen]] = {}
        for election in together:
            topics.setdefault(election.partition.topic, []).append(election)
        shown = [_topic(elections) for elections in list(topics.values())[:MOST_TOPICS]]
        rest = sum(len(elections) for elections in list(topics.values())[MOST_TOPICS:])
        more = f", and {rest:,} partition{'s' * (rest != 1)} more" if rest else ""
        emptied = ", ".join(shown) + more
        what = f"b{first.leader} was elected EMPTY, seen at {seen_at}: {emptied}"
        return "; ".join([what, *_holders(first.holders, "a log")])
    what = (
        f"{_names(together)} {'was' if len(together) == 1 else 'were'} elected by somebody else, "
        f"seen at {seen_at}: b{first.leader} leads with {first.log_end:,} records, b{first.best} "
        f"had {first.best_end:,}"
    )
    return "; ".join([what, *_missing_text(first, len(together))])


def _topic(elections: Sequence[ElectionSeen]) -> str:
    ends = [election.best_end for election in elections]
    span = f"{min(ends):,}" if min(ends) == max(ends) else f"{min(ends):,}..{max(ends):,}"
    # A log without records need not end at 0.
    to = {election.log_end for election in elections}
    return f"{_names(elections)} went from {span} to {to.pop() if len(to) == 1 else 0:,}"


def _names(elections: Sequence[ElectionSeen]) -> str:
    """``carts3-0..2``, ``orders-3``, ``orders-* (4)``."""
    numbers = span_text(span_of([election.partition.partition for election in elections]))
    many = f" ({len(elections):,})" if numbers == "*" else ""
    return f"{elections[0].partition.topic}-{numbers}{many}"


def _missing_text(first: ElectionSeen, partitions: int) -> Iterator[str]:
    each = " each" if partitions > 1 else ""
    about = "~" if first.approximate else ""
    if first.missing is None:
        records = f"an unknown number of records{each}"
    else:
        records = f"{about}{first.missing:,} record{'s' * (first.missing != 1)}{each}"
    if not first.open:
        yield f"{records} {_are(first.missing)} on no replica that was read"
    else:
        yield f"{records} {_are(first.missing)} only on {named(first.open)}, not truncated yet"
    yield from _holders(first.holders, "them")


def _are(number: int | None) -> str:
    return "is" if number == 1 else "are"


def _holders(holders: Sequence[ReplicaAhead], what: str) -> Iterator[str]:
    """What to do about brokers that still have the records, and which brokers lost them."""
    running, down, cut = (
        [holder.broker for holder in holders if holder.kept is kept]
        for kept in (LogFate.RUNNING, LogFate.DOWN, LogFate.TRUNCATED)
    )
    if running:
        yield f"stop the brokers that still hold {what}: {named(running)}"
    if down:
        they = "it holds" if len(down) == 1 else "they hold"
        whose = "its" if len(down) == 1 else "their"
        yield f"do not start {named(down)} before {whose} log folders are saved: {they} {what}"
    if cut:
        # ``b1``, ``b1 and b2``, ``b1, b2 and b3``.
        listed = named(cut) if len(cut) == 1 else f"{named(cut[:-1])} and b{cut[-1]}"
        yield f"{listed} {'has' if len(cut) == 1 else 'have'} been truncated"


SCHEMA = 1
MOST_BYTES = 1024 * 1024 * 1024
"""The largest file of observations that is read, in bytes."""
FOLDER = "observed"
OBSERVED, ACKNOWLEDGED = "observed", "acknowledged"


@dataclass(frozen=True, slots=True)
class Observation:
    """An election that was seen, and whether an operator acknowledged it."""

    seen: ElectionSeen
    who: str
    """The operator whose session saw the election first."""
    acknowledged_by: str = ""
    acknowledged_at_ms: int = 0

    @property
    def acknowledged(self) -> bool:
        return bool(self.acknowledged_by)

    def noted_by(self, who: str, at_ms: int) -> Observation:
        """The observation acknowledged by *who*; the first acknowledgement counts."""
        if self.acknowledged:
            return self
        return replace(self, acknowledged_by=who, acknowledged_at_ms=at_ms)


class Observations:
    """The observations of one cluster; each method reads or writes the file."""

    def __init__(self, cluster_id: str, folder: Path | None = None) -> None:
        self.cluster_id = cluster_id
        self.path = (folder or state_folder()) / FOLDER / f"{file_name(cluster_id)}.jsonl"

    def stamp(self) -> tuple[int, int]:
        """Size and time of the last change of the file: the same while nobody wrote."""
        try:
            found = self.path.stat()
        except OSError:
            return 0, 0
        return found.st_size, found.st_mtime_ns

    def load(self) -> tuple[Observation, ...]:
        """All observations, the newest first; lines that cannot be read are skipped.

        Raises:
            StorageError: the file is there and cannot be read.
        """
        try:
            lines = read_regular(self.path, MOST_BYTES).splitlines()
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StorageError(
                f"observations {self.path} cannot be read ({error.strerror}): check its rights"
            ) from error
        known: dict[ElectionKey, Observation] = {}
        for line in lines:
            _take(known, line)
        return tuple(
            sorted(
                known.values(), key=lambda observation: observation.seen.seen_at_ms, reverse=True
            )
        )

    def add(self, seen: Iterable[ElectionSeen]) -> None:
        """Write down what was *seen*, or its new state. Raises: StorageError."""
        self._append([_document(election) for election in seen])

    def acknowledge(self, keys: Iterable[ElectionKey]) -> None:
        """Write down that this operator acknowledged the elections. Raises StorageError."""
        of = [
            {"topic_id": topic_id, "topic": partition.topic, "partition": partition.partition,
             "leader_epoch": epoch}
            for topic_id, partition, epoch in keys
        ]  # fmt: skip
        self._append([{"kind": ACKNOWLEDGED, "of": of}] if of else [])

    def _append(self, documents: Sequence[Mapping[str, Any]]) -> None:
        frame = {"schema": SCHEMA, "at_ms": now_ms(), "who": operator()}
        lines = "".join(json.dumps({**frame, **document}) + "\n" for document in documents)
        append_lines(self.path, lines.encode(), "observations")


def clusters_observed(folder: Path | None = None) -> list[str]:
    """Ids of the clusters that have observations."""
    return clusters_in((folder or state_folder()) / FOLDER)


def unacknowledged(observations: Iterable[Observation]) -> Iterator[ElectionSeen]:
    """The elections that no operator has acknowledged."""
    return (observation.seen for observation in observations if not observation.acknowledged)


def observation_document(observation: Observation) -> dict[str, Any]:
    """The JSON form of an observation."""
    return {
        **_document(observation.seen),
        "who": observation.who,
        "acknowledged_by": observation.acknowledged_by or None,
        "acknowledged_at_ms": observation.acknowledged_at_ms or None,
    }


def _take(known: dict[ElectionKey, Observation], line: bytes) -> None:
    """Take in one line. A torn line, or a line of a later release, is ignored."""
    try:
        fields = json.loads(line)
        if fields["schema"] != SCHEMA:
            return
        if fields["kind"] == OBSERVED:
            missing = fields["missing"]
            seen = ElectionSeen(
                TopicPartition(str(fields["topic"]), int(fields["partition"])),
                str(fields["topic_id"]),
                int(fields["leader"]),
                int(fields["leader_epoch"]),
                int(fields["seen_at_ms"]),
                int(fields["log_end"]),
                bool(fields["empty"]),
                int(fields["best"]),
                int(fields["best_log_end"]),
                None if missing is None else int(missing),
                bool(fields["approximate"]),
                tuple([_read_holder(holder) for holder in fields["holders"]]),
            )
            before = known.get(seen.key)
            observed = Observation(seen, str(fields["who"])) if before is None else before
            # now, with what the session that saw it first wrote down.
            known[seen.key] = replace(
                observed,
                seen=replace(seen, seen_at_ms=min(observed.seen.seen_at_ms, seen.seen_at_ms)),
            )
        elif fields["kind"] == ACKNOWLEDGED:
            for key in map(_key, fields["of"]):
                if key in known:
                    known[key] = known[key].noted_by(str(fields["who"]), int(fields["at_ms"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return


def _document(election: ElectionSeen) -> dict[str, Any]:
    return {
        "kind": OBSERVED,
        "topic": election.partition.topic,
        "partition": election.partition.partition,
        "topic_id": election.topic_id,
        "leader": election.leader,
        "leader_epoch": election.leader_epoch,
        "seen_at_ms": election.seen_at_ms,
        "log_end": election.log_end,
        "empty": election.empty,
        "best": election.best,
        "best_log_end": election.best_end,
        "missing": election.missing,
        "approximate": election.approximate,
        "holders": [
            {
                "broker": holder.broker,
                "log_end": holder.log_end,
                "epoch": holder.epoch,
                "kept": holder.kept.value,
            }
            for holder in election.holders
        ],
    }


def _read_holder(told: Mapping[str, Any]) -> ReplicaAhead:
    epoch = told["epoch"]
    return ReplicaAhead(
        int(told["broker"]),
        int(told["log_end"]),
        None if epoch is None else int(epoch),
        LogFate(told["kept"]),
    )


def _key(told: Mapping[str, Any]) -> ElectionKey:
    partition = TopicPartition(str(told["topic"]), int(told["partition"]))
    return str(told["topic_id"]), partition, int(told["leader_epoch"])
