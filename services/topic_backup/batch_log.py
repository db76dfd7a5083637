"""Logs the state of each rescued batch as JSON lines, because the format has no place for it.

The leader epoch, producer, sequence, transaction flags and markers decide whether a record of a
truncated tail was committed. Kafka Backup's readers ignore the file's name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import BinaryIO

from breakglass.services.errors import DamagedBackup
from breakglass.services.record_batches import RecordBatch
from breakglass.services.topic_backup.folder import AppendFolder, Folder, storage_errors
from breakglass.services.topic_backup.layout import batch_log_name
from breakglass.services.topic_backup.summary import BatchLogSummary

MAX_LINE_BYTES = 64 * 1024
_COMMITS = {"commit": True, "abort": False}


@dataclass(frozen=True, slots=True)
class BatchState:
    """One batch of the source log."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    count: int
    crc: int
    compression: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool
    marker: str | None
    """commit, abort or another control type; None for data."""
    coordinator_epoch: int | None

    @property
    def commit(self) -> bool | None:
        """Whether it commits a transaction or aborts it; None: it ends none."""
        return None if self.marker is None else _COMMITS.get(self.marker)

    @classmethod
    def of(cls, batch: RecordBatch) -> BatchState:
        """The state of *batch*; a control batch without records has the marker `unknown`."""
        header, marker = batch.header, batch.marker
        name = marker.type.name.lower() if marker else "unknown" if header.control else None
        return cls(
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            leader_epoch=header.leader_epoch,
            count=header.count,
            crc=header.crc,
            compression=header.compression,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.transactional,
            marker=name,
            coordinator_epoch=marker.coordinator_epoch if marker else None,
        )


class BatchLog:
    """Appends batch states, and skips a batch that is already logged."""

    def __init__(
        self,
        folder: AppendFolder,
        partition: int,
        committed: BatchLogSummary | None,
        next_offset: int | None,
    ) -> None:
        """Create the log or continue it.

        Lines after *committed* stay up to *next_offset*, where the next record will be written. An
        incomplete line is cut off, and so are lines of batches whose records were all cut off.

        Raises DamagedBackup: the file is shorter than was committed, or has other bytes.
        """
        self._name = batch_log_name(partition)
        self._digest = hashlib.sha256()
        self._size = 0
        self._batches = 0
        self._logged_to = -1
        self._waiting = bytearray()
        if committed or folder.size(self._name):
            self._take_in(folder, committed, next_offset or 0)
        self._file = folder.append(self._name, self._size)

    def append(self, state: BatchState) -> None:
        if state.last_offset < self._logged_to:
            return
        line = json.dumps(asdict(state), separators=(",", ":")).encode() + b"\n"
        self._waiting += line
        self._count(line, state)

    def sync(self) -> None:
        """Make all logged batches durable."""
        if self._waiting:
            self._file.write(bytes(self._waiting))
            self._waiting.clear()
            self._file.sync()

    def close(self) -> None:
        self._file.close()

    def summary(self) -> BatchLogSummary:
        """The current state of the log; call `sync` before committing it."""
        return BatchLogSummary(self._size, self._digest.hexdigest(), self._batches)

    def _take_in(self, folder: Folder, committed: BatchLogSummary | None, next_offset: int) -> None:
        where = folder.where(self._name)
        done = committed.bytes if committed else 0
        found = done == 0
        with folder.open(self._name) as file, storage_errors(where):
            for line, state in _lines(file):
                fresh = self._logged_to <= state.base_offset < next_offset
                if self._size >= done and not fresh:
                    break
                self._count(line, state)
                found = found or self.summary() == committed
        if not found:
            raise DamagedBackup(where, self._size, "its committed lines have changed")

    def _count(self, line: bytes, state: BatchState) -> None:
        self._digest.update(line)
        self._size += len(line)
        self._batches += 1
        self._logged_to = state.last_offset + 1


def read_batch_log(
    folder: Folder, partition: int, committed: BatchLogSummary
) -> Iterator[BatchState]:
    """The committed batch states of *partition*, in offset order.

    Raises:
        DamagedBackup: the file has fewer complete lines than were committed, or other bytes; it
            is raised after the last line.
    """
    where = folder.where(batch_log_name(partition))
    count, digest = 0, hashlib.sha256()
    with folder.open(batch_log_name(partition)) as file, storage_errors(where):
        for line, state in islice(_lines(file), committed.batches):
            digest.update(line)
            yield state
            count += 1
    if count < committed.batches:
        raise DamagedBackup(
            where, 0, f"{committed.batches} lines were committed, {count} are there"
        )
    if digest.hexdigest() != committed.sha256:
        raise DamagedBackup(where, 0, "its lines are not those that were committed (SHA-256)")


def _lines(file: BinaryIO) -> Iterator[tuple[bytes, BatchState]]:
    """Complete lines with their states; stops at the first line that cannot be parsed."""
    while True:
        line = file.readline(MAX_LINE_BYTES)
        state = _parse(line)
        if state is None:
            return
        yield line, state


def _parse(line: bytes) -> BatchState | None:
    if not line.endswith(b"\n"):
        return None
    try:
        state = BatchState(**json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return None
    numbers = (state.base_offset, state.last_offset, state.leader_epoch, state.count)
    return state if all(type(number) is int for number in numbers) else None
