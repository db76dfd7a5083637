"""What sessions saw of a cluster, in its state folder: a file beside the journals, without lock.

A journal says what was done from here and holds the lock of its cluster. An observation changes
nothing, so any number of read-only sessions may write one down; each line goes out whole. What
two of them saw of the same election counts once, and the newest line says how it stands.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from breakglass.services.clock import now_ms
from breakglass.services.errors import StorageError
from breakglass.services.guard.lock import file_name, operator, private_folder
from breakglass.services.incident.elections_seen import ElectionSeen, Key, LogFate, ReplicaAhead
from breakglass.services.model import TopicPartition
from breakglass.services.regular_file import read_regular
from breakglass.services.state_folder import state_folder

SCHEMA = 1
MOST_BYTES = 1024 * 1024 * 1024
"""No file of observations is larger."""
FOLDER = "observed"
OBSERVED, ACKNOWLEDGED = "observed", "acknowledged"


@dataclass(frozen=True, slots=True)
class Observation:
    """An election that was seen, and whether somebody has taken note of it."""

    seen: ElectionSeen
    who: str
    """Whose session saw it first."""
    acknowledged_by: str = ""
    acknowledged_at_ms: int = 0

    @property
    def acknowledged(self) -> bool:
        return bool(self.acknowledged_by)

    def noted_by(self, who: str, at_ms: int) -> Observation:
        """The same once *who* took note; the first one counts."""
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
        """All of them, the newest first; lines that cannot be read are passed over.

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
        held: dict[Key, Observation] = {}
        for line in lines:
            _take(held, line)
        return tuple(sorted(held.values(), key=lambda one: one.seen.seen_at_ms, reverse=True))

    def add(self, seen: Iterable[ElectionSeen]) -> None:
        """Write down what was *seen*, or how it stands by now. Raises: StorageError."""
        self._append([_document(one) for one in seen])

    def acknowledge(self, keys: Iterable[Key]) -> None:
        """Write down that the operator of this process took note. Raises: StorageError."""
        of = [
            {"topic_id": topic_id, "topic": partition.topic, "partition": partition.partition,
             "leader_epoch": epoch}
            for topic_id, partition, epoch in keys
        ]  # fmt: skip
        self._append([{"kind": ACKNOWLEDGED, "of": of}] if of else [])

    def _append(self, documents: Sequence[Mapping[str, Any]]) -> None:
        frame = {"schema": SCHEMA, "at_ms": now_ms(), "who": operator()}
        lines = "".join(json.dumps({**frame, **one}) + "\n" for one in documents)
        if not lines:
            return
        private_folder(self.path.parent)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self.path, flags, 0o600)
            try:
                # Other sessions write as well: none between the parts of a long write.
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                _write(descriptor, _after_a_torn_line(descriptor) + lines.encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StorageError(
                f"observations {self.path} cannot be written ({error.strerror}): free space "
                "there, or check its rights"
            ) from error


def clusters_observed(folder: Path | None = None) -> list[str]:
    """Ids of the clusters of which something was observed."""
    prefix = file_name("")
    found = ((folder or state_folder()) / FOLDER).glob(f"{prefix}*.jsonl")
    return sorted(unquote(path.stem.removeprefix(prefix)) for path in found)


def unacknowledged(observations: Iterable[Observation]) -> Iterator[ElectionSeen]:
    """What nobody has taken note of yet."""
    return (one.seen for one in observations if not one.acknowledged)


def observation_document(one: Observation) -> dict[str, Any]:
    """The JSON form of an observation."""
    return {
        **_document(one.seen),
        "who": one.who,
        "acknowledged_by": one.acknowledged_by or None,
        "acknowledged_at_ms": one.acknowledged_at_ms or None,
    }


def _after_a_torn_line(descriptor: int) -> bytes:
    """What ends the last line, if its writer did not."""
    size = os.fstat(descriptor).st_size
    return b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b""


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _take(held: dict[Key, Observation], line: bytes) -> None:
    """Take in one line. A torn one, or one of a later release, says nothing."""
    try:
        told = json.loads(line)
        if told["schema"] != SCHEMA:
            return
        if told["kind"] == OBSERVED:
            seen = _seen(told)
            before = held.get(seen.key)
            known = Observation(seen, str(told["who"])) if before is None else before
            held[seen.key] = replace(known, seen=_newer(known.seen, seen))
        elif told["kind"] == ACKNOWLEDGED:
            for key in map(_key, told["of"]):
                if key in held:
                    held[key] = held[key].noted_by(str(told["who"]), int(told["at_ms"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return


def _newer(before: ElectionSeen, now: ElectionSeen) -> ElectionSeen:
    """*now*, as first seen by whoever saw it first."""
    return replace(now, seen_at_ms=min(before.seen_at_ms, now.seen_at_ms))


def _document(one: ElectionSeen) -> dict[str, Any]:
    return {
        "kind": OBSERVED,
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "topic_id": one.topic_id,
        "leader": one.leader,
        "leader_epoch": one.leader_epoch,
        "seen_at_ms": one.seen_at_ms,
        "log_end": one.log_end,
        "empty": one.empty,
        "best": one.best,
        "best_log_end": one.best_end,
        "missing": one.missing,
        "approximate": one.approximate,
        "holders": [
            {
                "broker": holder.broker,
                "log_end": holder.log_end,
                "epoch": holder.epoch,
                "kept": holder.kept.value,
            }
            for holder in one.holders
        ],
    }


def _seen(told: Mapping[str, Any]) -> ElectionSeen:
    missing = told["missing"]
    return ElectionSeen(
        TopicPartition(str(told["topic"]), int(told["partition"])),
        str(told["topic_id"]),
        int(told["leader"]),
        int(told["leader_epoch"]),
        int(told["seen_at_ms"]),
        int(told["log_end"]),
        bool(told["empty"]),
        int(told["best"]),
        int(told["best_log_end"]),
        None if missing is None else int(missing),
        bool(told["approximate"]),
        tuple([_holder(one) for one in told["holders"]]),
    )


def _holder(told: Mapping[str, Any]) -> ReplicaAhead:
    epoch = told["epoch"]
    return ReplicaAhead(
        int(told["broker"]),
        int(told["log_end"]),
        None if epoch is None else int(epoch),
        LogFate(told["kept"]),
    )


def _key(told: Mapping[str, Any]) -> Key:
    partition = TopicPartition(str(told["topic"]), int(told["partition"]))
    return str(told["topic_id"]), partition, int(told["leader_epoch"])
