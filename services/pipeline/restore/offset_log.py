"""The append-only file in which a restore keeps the map from old to new offsets.

Each transaction is announced in the file before its commit and confirmed afterwards. After a kill,
an announcement without a confirmation is settled by the progress that the cluster has, or by a read
of the topic.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breakglass.services.pipeline.restore.offset_map import CommittedRun
from breakglass.services.pipeline.restore.task import Hopeless
from breakglass.services.regular_file import read_regular
from breakglass.services.rights import open_new

MOST_BYTES = 1024 * 1024 * 1024
"""The maximum size of the file."""


@dataclass(frozen=True, slots=True)
class Announced:
    """The records of one transaction, announced before its commit."""

    id: str
    runs: tuple[CommittedRun, ...]
    """By old offset; several runs if other producers wrote in between."""

    @property
    def first_offset(self) -> int:
        return self.runs[0].first_offset

    @property
    def next_offset(self) -> int:
        return self.runs[-1].next_offset

    def overlaps(self, other: Announced) -> bool:
        """Whether both have some stored records in common."""
        return self.first_offset < other.next_offset and other.first_offset < self.next_offset


@dataclass(frozen=True, slots=True)
class LoggedOffsets:
    """The content of a log."""

    confirmed: tuple[Announced, ...] = ()
    """By old offset."""
    open: tuple[Announced, ...] = ()
    """Unconfirmed announcements of unconfirmed records, in the order of the log."""

    @property
    def runs(self) -> list[CommittedRun]:
        """The confirmed runs, by old offset."""
        return [run for transaction in self.confirmed for run in transaction.runs]

    @property
    def next_offset(self) -> int | None:
        """One past the last confirmed record; None if there is none."""
        return self.confirmed[-1].next_offset if self.confirmed else None


def read_log(path: Path) -> LoggedOffsets:
    """Read the log at *path*; empty if there is no file.

    A line torn by a kill is ignored: its transaction was not committed.
    """
    try:
        content = read_regular(path, MOST_BYTES)
    except FileNotFoundError:
        return LoggedOffsets()
    announced: dict[str, Announced] = {}
    confirmed: dict[str, Announced] = {}
    for line in content.split(b"\n")[:-1]:
        found = _parsed(line)
        if isinstance(found, Announced):
            announced[found.id] = found
        elif found in announced:
            confirmed[found] = announced[found]
    certain = sorted(confirmed.values(), key=lambda transaction: transaction.first_offset)
    waiting = [
        transaction
        for transaction in announced.values()
        if transaction.id not in confirmed and not any(map(transaction.overlaps, certain))
    ]
    return LoggedOffsets(tuple(certain), tuple(waiting))


def _parsed(line: bytes) -> Announced | str | None:
    try:
        document: Any = json.loads(line)
        if "confirmed" in document:
            return str(document["confirmed"])
        runs = tuple(CommittedRun(**run) for run in document["runs"])
        return Announced(str(document["id"]), runs) if runs else None
    except (ValueError, TypeError, KeyError):
        return None


class OffsetLog:
    """Writes the log of one partition. Several writers may append at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def announce(self, runs: Sequence[CommittedRun]) -> Announced:
        """Announce the runs of a commit; the line is on disk when this returns."""
        one = Announced(secrets.token_hex(8), tuple(runs))
        document = {"id": one.id, "runs": [run.document() for run in runs]}
        self._append(document, durable=True)
        return one

    def confirm(self, announced: Announced) -> None:
        """Record that *announced* was committed."""
        self._append({"confirmed": announced.id}, durable=False)

    def settle(self, reached: int | None, look: Callable[[Announced], bool]) -> int | None:
        """Confirm the open announcements that were committed; return the next old offset.

        *reached* is the next old offset by the committed offset of the group, if there is one.
        It may be too low: a coordinator that is killed after it has acknowledged a transaction, and
        before it has stored the offsets of the group, can lose them. *look* reads the topic to find
        whether the records of an announcement are committed; it decides where nothing else can.

        Raises:
            Hopeless: the log and the cluster contradict each other.
        """
        logged = read_log(self._path)
        for transaction in logged.open:
            alone = not any(
                other.id != transaction.id and transaction.overlaps(other) for other in logged.open
            )
            past = reached is not None and transaction.next_offset <= reached
            if (past and alone) or look(transaction):
                self.confirm(transaction)
        logged = read_log(self._path)
        found = logged.next_offset
        if reached is None or found == reached:
            return found
        if found is None or found < reached or not look(logged.confirmed[-1]):
            raise Hopeless(
                f"{self._path} has records before offset {found}, the cluster has records before "
                f"{reached}: use the --state folder that the restore was started with, or restore "
                "into a topic of another name."
            )
        return found

    def _append(self, document: object, *, durable: bool) -> None:
        # A new line, also after a torn line.
        line = f"{json.dumps(document)}\n".encode()
        with open(self._path, "ab", opener=open_new) as file:
            if file.tell() and not _ends_whole(self._path):
                line = b"\n" + line
            file.write(line)
            file.flush()
            if durable:
                os.fsync(file.fileno())


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def runs_of(old_offsets: Sequence[int], new_offsets: Iterable[int]) -> list[CommittedRun]:
    """Runs of records with consecutive new offsets, from the offsets of each record.

    Raises:
        ValueError: new offsets do not rise.
    """
    runs: list[CommittedRun] = []
    begin, at, last = 0, -1, -1
    for number, new in enumerate(new_offsets):
        if new <= last:
            raise ValueError(f"offset {new} follows {last}")
        if number and new != last + 1:
            runs.append(_run(old_offsets, begin, number, at))
            begin = number
        if begin == number:
            at = new
        last = new
    runs.append(_run(old_offsets, begin, len(old_offsets), at))
    return runs


def _run(old_offsets: Sequence[int], begin: int, end: int, new: int) -> CommittedRun:
    return CommittedRun(int(old_offsets[begin]), int(old_offsets[end - 1]) + 1, new, end - begin)
