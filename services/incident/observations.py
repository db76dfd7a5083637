"""What sessions saw of a cluster, in its state folder: a file beside the journals, without lock.

A journal says what was done from here and locks its cluster. An observation changes nothing, so
any number of read-only sessions may write at once; each line is written whole. Two observations
of the same election count once, and the newest line is valid.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from breakglass.services.clock import now_ms
from breakglass.services.errors import StorageError
from breakglass.services.guard.lock import file_name, operator
from breakglass.services.guard.shared_lines import append_lines
from breakglass.services.incident.elections_seen import ElectionSeen, Key, LogFate, ReplicaAhead
from breakglass.services.model import TopicPartition
from breakglass.services.regular_file import read_regular
from breakglass.services.state_folder import state_folder

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
        known: dict[Key, Observation] = {}
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

    def acknowledge(self, keys: Iterable[Key]) -> None:
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
    prefix = file_name("")
    found = ((folder or state_folder()) / FOLDER).glob(f"{prefix}*.jsonl")
    return sorted(unquote(path.stem.removeprefix(prefix)) for path in found)


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


def _take(known: dict[Key, Observation], line: bytes) -> None:
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
                tuple([_holder(holder) for holder in fields["holders"]]),
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
