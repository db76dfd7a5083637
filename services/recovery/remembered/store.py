"""What any command or console of this account heard of a cluster's replicas, kept on disk.

A file of lines beside the journals, by cluster id: for each partition what each replica reported
last, for each broker when its disk was found to have nothing that a start would lose, and the
folders of rescues. Lines that cannot be read are counted and named, never believed.

Put beside what is read now, an unread replica is one of four: its log is read now; it was heard
before, and nothing contradicts it; what was heard contradicts its start, for it was EMPTY or below
the others; or it was never heard. What was heard while the partition was without the same leader
bounds the log from above (`judgement.inputs`). It proves nothing about what is on the disk now: a
power cut takes records that were acknowledged and not flushed (R26).
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from breakglass.services.clock import now_ms
from breakglass.services.errors import StorageError
from breakglass.services.guard.lock import append_lines, file_name, operator, shorten
from breakglass.services.model import (
    Forfeited,
    PartitionEvidence,
    PartitionState,
    ReplicaLog,
    Role,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.judgement.ranking import holds_records
from breakglass.services.recovery.judgement.succession import shortfall
from breakglass.services.recovery.ledger.holdings import log_of, valid_offset, written_log
from breakglass.services.regular_file import open_regular
from breakglass.services.state_folder import state_folder
from breakglass.services.words.moments import time_text

Key = tuple[str, TopicPartition]
"""Topic id and partition: a topic that was created again is another one."""


@dataclass(frozen=True, slots=True)
class HeardLog:
    """A replica's log as its broker reported it once."""

    log: ReplicaLog
    """With when it was read, and the leader epoch that its broker knew."""
    leader_epoch: int
    """The partition's leader epoch then, by the metadata."""
    offline: bool
    """The partition had no leader then."""

    @property
    def at_ms(self) -> int:
        return self.log.observed_at_ms

    def silent_since(self, state: PartitionState) -> bool:
        """Whether the partition, now in *state*, had no leader from then until now."""
        return self.offline and state.offline and self.leader_epoch == state.leader_epoch


Heard = Mapping[int, HeardLog]
"""By broker."""


def key_of(state: PartitionState) -> Key:
    """What the partition is remembered by."""
    return str(state.topic_id), state.partition


def leaders_of(broker: int, states: Iterable[PartitionState]) -> str:
    """The leaders, by their epochs, that *broker* would follow: another text once one is another.

    A disk that was found to lose nothing under others may lose something now.
    """
    led = sorted(
        f"{state.topic_id} {state.partition.partition} {state.leader_epoch}"
        for state in states
        if state.leader is not None and broker in state.assignment and broker not in state.isr
    )
    return hashlib.sha256("\n".join(led).encode()).hexdigest()[:16]


def heard_in(evidence: PartitionEvidence) -> dict[int, HeardLog]:
    """The logs that were read for *evidence*."""
    state = evidence.state
    return {
        replica.broker: HeardLog(replica, state.leader_epoch, state.offline)
        for replica in evidence.replicas
        if not isinstance(replica.log_end, Unknown)
    }


def same_logs(heard: Heard, before: Heard) -> bool:
    """Whether *before* has the logs of *heard*, from the same silence or the same leader."""
    return all(
        (then := before.get(broker)) is not None and _figures(now) == _figures(then)
        for broker, now in heard.items()
    )


def _figures(heard: HeardLog) -> tuple[object, ...]:
    log = heard.log
    epochs = None if isinstance(log.epochs, Unknown) else log.epochs
    return heard.leader_epoch, heard.offline, log.log_start, log.log_end, epochs, log.corrupt_at


def written_heard(heard: Iterable[HeardLog]) -> list[dict[str, Any]]:
    """*heard* as a list of JSON objects; `read_heard` reads it back."""
    return [
        {
            **written_log(one.log),
            "at_ms": one.at_ms,
            "known_epoch": None
            if isinstance(one.log.leader_epoch, Unknown)
            else one.log.leader_epoch,
            "leader_epoch": one.leader_epoch,
            "offline": one.offline,
        }
        for one in heard
    ]


def read_heard(listed: object) -> dict[int, HeardLog] | None:
    """The logs that a list of JSON objects has; None where any of it is malformed."""
    if not isinstance(listed, list):
        return None
    found = [_heard(one) for one in listed]
    if any(one is None for one in found):
        return None
    return {one.log.broker: one for one in found if one is not None}


def _heard(fields: object) -> HeardLog | None:
    log = log_of(fields)
    if log is None or not isinstance(fields, Mapping) or isinstance(log.log_end, Unknown):
        return None
    at_ms, epoch, known = (fields.get(name) for name in ("at_ms", "leader_epoch", "known_epoch"))
    if not valid_offset(at_ms) or not valid_offset(epoch):
        return None
    if known is not None and not valid_offset(known):
        return None
    knew = Unknown("its broker did not say") if known is None else known
    log = replace(log, observed_at_ms=at_ms, leader_epoch=knew)
    return HeardLog(log, epoch, fields.get("offline") is True)


def recalled(evidence: PartitionEvidence, heard: Heard) -> PartitionEvidence:
    """*evidence* with what was *heard* of the replicas that cannot be read now."""
    silent = {
        replica.broker
        for replica in evidence.replicas
        if isinstance(replica.log_end, Unknown) and replica.broker in heard
    }
    if not silent:
        return evidence
    # As if each silent replica still had the log that it reported last.
    replicas = [
        _as_now(heard[replica.broker].log, replica)
        if isinstance(replica.log_end, Unknown) and replica.broker in heard
        else replica
        for replica in evidence.replicas
    ]
    together = replace(evidence, replicas=tuple(replicas))
    return replace(
        evidence,
        replicas=tuple(
            [
                _recalled(replica, replica.log_end, heard[replica.broker], together)
                if replica.broker in silent and isinstance(replica.log_end, Unknown)
                else replica
                for replica in evidence.replicas
            ]
        ),
    )


def _as_now(log: ReplicaLog, replica: ReplicaLog) -> ReplicaLog:
    """The *log* that was heard, with the role that the metadata gives *replica* now."""
    return replace(
        log, role=replica.role, fenced=replica.fenced, log_dir_online=replica.log_dir_online
    )


def _recalled(
    replica: ReplicaLog, silence: Unknown, heard: HeardLog, together: PartitionEvidence
) -> ReplicaLog:
    log = _as_now(heard.log, replica)
    bound = replica.last_heard
    if bound is None and heard.silent_since(together.state):
        bound = log
    at = time_text(heard.at_ms)
    harm = _harm(heard, log, together)
    if harm:
        reason = f"electing it would destroy what others hold ({harm}), as it reported at {at}"
        return replace(
            replica, log_end=Forfeited(f"{reason}; now {silence.reason}"), last_heard=bound
        )
    damaged = "" if log.corrupt_at is None else f", corrupt at {log.corrupt_at:,}"
    ended = f"its log ended at {log.log_end:,}{damaged} when it was last read, at {at}"
    return replace(
        replica, log_end=replace(silence, reason=f"{silence.reason}; {ended}"), last_heard=bound
    )


def _harm(heard: HeardLog, log: ReplicaLog, together: PartitionEvidence) -> str:
    """What the log that was heard lacks of the others; empty where its start does no harm.

    A replica that came into the ISR, the ELR or the lead after it was heard has caught up since.
    One that is stale stays EMPTY for as long as nobody has read anything else of it.
    """
    if log.role is Role.STALE:
        fuller = any(
            other.broker != log.broker
            and not isinstance(other.log_end, Unknown)
            and holds_records(other)
            for other in together.replicas
        )
        return f"b{log.broker} was EMPTY" if fuller and not holds_records(log) else ""
    return shortfall(together, log) if heard.silent_since(together.state) else ""


SCHEMA = 1
FOLDER = "heard"
WHAT = "the memory of replicas"
MOST_PARTITIONS = 20_000
"""More are remembered only where a replica may be elected by the controller alone."""
MOST_BYTES = 64 * 1024 * 1024
"""The largest file; one that grows beyond is cut down to the newest line of each partition."""
HEARD, CHECKED, COMPARED, SAVED = "heard", "checked", "compared", "saved"
REFRESH_MS = 600_000
"""After so many milliseconds a log is written down again though it is the same: it is younger."""


@dataclass(slots=True)
class _Entry:
    """What is remembered of one partition, in the order of the file."""

    line: bytes
    at_ms: int


class ReplicaMemory:
    """The memory of one cluster. For one thread."""

    def __init__(self, cluster_id: str, folder: Path | None = None) -> None:
        self.cluster_id = cluster_id
        self.path = (folder or state_folder()) / FOLDER / f"{file_name(cluster_id)}.jsonl"
        self._entries: dict[Key, _Entry] = {}
        self._last_heard: dict[int, int] = {}
        self._checked: dict[int, int] = {}
        self._checked_under: dict[int, object] = {}
        self._compared: dict[Key, int] = {}
        self._returned: dict[Key, int] = {}
        self._rescues: dict[Path, None] = {}
        self._emptied: dict[Key, dict[int, int]] = {}
        self._file, self._read = 0, 0
        """The file that was read, and how far."""
        self._unread_lines = 0
        self._trouble, self._crowded = "", ""

    @property
    def trouble(self) -> str:
        """What of the file could not be read or written; empty if nothing."""
        lines = self._unread_lines
        damaged = (
            f"{WHAT} {self.path}: {lines:,} line{'s' * (lines != 1)} cannot be read and "
            f"{'are' if lines != 1 else 'is'} left out"
        )
        told = (damaged if lines else "", self._trouble, self._crowded)
        return "; ".join([trouble for trouble in told if trouble])

    def heard(self, key: Key) -> Heard:
        """What replicas of that partition reported last, by broker."""
        self._read_on()
        entry = self._entries.get(key)
        return {} if entry is None else _logs(entry.line) or {}

    def partitions(self) -> Iterable[Key]:
        """The partitions that something is remembered of."""
        self._read_on()
        return tuple(self._entries)

    def emptied(self) -> Mapping[Key, Mapping[int, int]]:
        """Whose logs were EMPTY when they were heard last, and when, beside logs with records."""
        self._read_on()
        return self._emptied

    def last_heard(self, broker: int) -> int:
        """When any replica of *broker* was read last, in milliseconds of the epoch; 0: never."""
        self._read_on()
        return self._last_heard.get(broker, 0)

    def checked(self, broker: int) -> int:
        """When the disk of *broker* was found to have nothing that a start loses; 0: never."""
        self._read_on()
        return self._checked.get(broker, 0)

    def checked_under(self, broker: int) -> object:
        """Under which leaders that was (`leaders_of`); None: not known."""
        self._read_on()
        return self._checked_under.get(broker)

    def rescues(self) -> tuple[Path, ...]:
        """The folders that rescues were saved in."""
        self._read_on()
        return tuple(self._rescues)

    def compared(self, key: Key) -> int:
        """Up to which leader epoch its leaders were compared with what was heard; -1: none."""
        self._read_on()
        return self._compared.get(key, -1)

    def returned(self) -> Mapping[Key, int]:
        """When partitions that were offline were seen with a leader that no journal elected."""
        self._read_on()
        return self._returned

    def recalled(self, partitions: Iterable[PartitionEvidence]) -> tuple[PartitionEvidence, ...]:
        """*partitions*, just read, with what is remembered of the logs that could not be read."""
        self._read_on()
        if not self._entries:
            return tuple(partitions)
        return tuple([self._recalled(evidence) for evidence in partitions])

    def note(self, partitions: Iterable[PartitionEvidence]) -> None:
        """Write down the logs of *partitions* that were read, where anything about them is new."""
        self._read_on()
        now, lines = now_ms(), []
        for evidence in self._chosen(tuple(partitions)):
            line = self._line(evidence, now)
            if line is not None:
                lines.append(line)
        self._append(lines)

    def _chosen(self, partitions: tuple[PartitionEvidence, ...]) -> Iterator[PartitionEvidence]:
        """Those of *partitions* that are remembered: of very many, what is dangerous to forget.

        That is a replica which the controller may elect by itself.
        """
        room = MOST_PARTITIONS - len(self._entries)
        for evidence in partitions:
            known = key_of(evidence.state) in self._entries
            if known or room > 0:
                room -= not known
                yield evidence
            elif any(
                replica.role is not Role.STALE and not isinstance(replica.log_end, Unknown)
                for replica in evidence.replicas
            ):
                yield evidence
            else:
                self._crowded = (
                    f"{WHAT} {self.path} has {MOST_PARTITIONS:,} partitions: of others only "
                    "replicas that may be elected without us are remembered"
                )

    def note_checked(self, broker: int, leaders: str) -> None:
        """Write down that a start of *broker* loses nothing under these *leaders*."""
        self._append([_framed(CHECKED, now_ms(), broker=broker, leaders=leaders)])

    def note_rescue(self, folder: Path) -> None:
        """Write down that *folder* has rescues, so that later commands find them."""
        if folder.absolute() not in self.rescues():
            self._append([_framed(SAVED, now_ms(), folder=str(folder.absolute()))])

    def note_compared(self, keys: Mapping[Key, int]) -> None:
        """Write down the leader epochs whose leaders were compared with what was heard."""
        now = now_ms()
        self._append(
            [
                _framed(COMPARED, now, **_named(key), leader_epoch=epoch)
                for key, epoch in keys.items()
            ]
        )

    def _recalled(self, evidence: PartitionEvidence) -> PartitionEvidence:
        if not any(isinstance(replica.log_end, Unknown) for replica in evidence.replicas):
            return evidence
        entry = self._entries.get(key_of(evidence.state))
        return evidence if entry is None else recalled(evidence, _logs(entry.line) or {})

    def _line(self, evidence: PartitionEvidence, now: int) -> bytes | None:
        """The line for *evidence*; None where it says nothing new."""
        heard = heard_in(evidence)
        if not heard:
            return None
        key = key_of(evidence.state)
        entry = self._entries.get(key)
        before = {} if entry is None else _logs(entry.line) or {}
        if entry is not None and now - entry.at_ms < REFRESH_MS and same_logs(heard, before):
            return None
        together = {**before, **heard}
        return _framed(HEARD, now, **_named(key), replicas=written_heard(together.values()))

    def _append(self, lines: list[bytes]) -> None:
        if not lines:
            return
        try:
            append_lines(self.path, b"".join(lines), WHAT)
            self._read_on()
            if self._read > MOST_BYTES:
                shorten(self.path, newest_lines, WHAT)
        except StorageError as error:
            self._trouble = str(error)
            for line in lines:
                self._take(line)
        else:
            self._trouble = ""

    def _read_on(self) -> None:
        """Take in what this and other sessions have written since."""
        try:
            with open_regular(self.path) as file:
                import os

                found = os.fstat(file.fileno())
                if found.st_ino != self._file or found.st_size < self._read:
                    self._file, self._read, self._unread_lines = found.st_ino, 0, 0
                if found.st_size == self._read:
                    return
                if found.st_size > 2 * MOST_BYTES:
                    raise OSError(0, f"it has {found.st_size:,} bytes, too many to be read")
                file.seek(self._read)
                data = file.read(found.st_size - self._read)
        except FileNotFoundError:
            return
        except OSError as error:
            self._trouble = f"{WHAT} {self.path} cannot be read ({error.strerror})"
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            if line and not self._take(line):
                self._unread_lines += 1

    def _take(self, line: bytes) -> bool:
        """Take in one line; false where it cannot be read."""
        fields = _fields(line)
        if fields is None:
            return False
        kind, at_ms = fields.get("kind"), fields["at_ms"]
        if kind == CHECKED:
            broker = fields.get("broker")
            if not valid_offset(broker):
                return False
            self._checked[broker] = max(at_ms, self._checked.get(broker, 0))
            self._checked_under[broker] = fields.get("leaders")
            return True
        if kind == SAVED:
            folder = fields.get("folder")
            if not isinstance(folder, str) or "\0" in folder:
                return False
            self._rescues[Path(folder)] = None
            return True
        key = _key(fields)
        if key is None:
            return False
        if kind == COMPARED:
            epoch = fields.get("leader_epoch")
            if not valid_offset(epoch):
                return False
            self._compared[key] = max(epoch, self._compared.get(key, -1))
            self._returned[key] = at_ms
            return True
        heard = read_heard(fields.get("replicas")) if kind == HEARD else None
        if heard is None:
            return False
        self._remember(key, line, at_ms, heard)
        return True

    def _remember(self, key: Key, line: bytes, at_ms: int, heard: dict[int, HeardLog]) -> None:
        self._entries[key] = _Entry(line, at_ms)
        ends = [one.log.log_end for one in heard.values() if isinstance(one.log.log_end, int)]
        # A log whose records were deleted ends where the others do, and truncates nobody.
        empty = {
            broker: one.at_ms
            for broker, one in heard.items()
            if not holds_records(one.log) and one.log.log_end != max(ends)
        }
        self._emptied.pop(key, None)
        if empty:
            self._emptied[key] = empty
        for broker, one in heard.items():
            if one.at_ms > self._last_heard.get(broker, 0):
                self._last_heard[broker] = one.at_ms


def newest_lines(data: bytes) -> bytes:
    """The newest line of each partition, of the newest partitions in half of `MOST_BYTES`."""
    by_kind = {CHECKED: "broker", SAVED: "folder"}
    newest: dict[object, bytes] = {}
    for line in data.splitlines():
        fields = _fields(line)
        if fields is not None:
            kind = str(fields.get("kind"))
            about = fields.get(by_kind[kind]) if kind in by_kind else _key(fields)
            newest.pop((kind, str(about)), None)
            newest[kind, str(about)] = line + b"\n"
    kept, size = [], 0
    for line in reversed(newest.values()):
        size += len(line)
        if size > MOST_BYTES // 2:
            break
        kept.append(line)
    return b"".join(reversed(kept))


def _framed(kind: str, at_ms: int, **fields: Any) -> bytes:
    # The command that this process runs: ``triage``; empty where it has no name.
    words = [
        word for word in sys.argv[1:2] if word.isidentifier() or word.replace("-", "").isalpha()
    ]
    command = words[0][:40] if words else ""
    document = {
        "schema": SCHEMA, "kind": kind, "at_ms": at_ms, "who": operator(), "by": command,
        **fields,
    }  # fmt: skip
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def _named(key: Key) -> dict[str, Any]:
    topic_id, partition = key
    return {"topic_id": topic_id, "topic": partition.topic, "partition": partition.partition}


def _fields(line: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or fields.get("schema") != SCHEMA:
        return None
    return fields if valid_offset(fields.get("at_ms")) else None


def _key(fields: Mapping[str, Any]) -> Key | None:
    topic_id, topic, number = (fields.get(name) for name in ("topic_id", "topic", "partition"))
    if not isinstance(topic_id, str) or not isinstance(topic, str) or not valid_offset(number):
        return None
    return topic_id, TopicPartition(topic, number)


def _logs(line: bytes) -> dict[int, HeardLog] | None:
    fields = _fields(line)
    return None if fields is None else read_heard(fields.get("replicas"))
