"""The file in which a restore keeps the way from old to new offsets, only ever appended to.

What a transaction is about to commit is announced in it first, and confirmed afterwards. So
whatever is killed, of each announcement it can be told whether it came true: it was confirmed, or
the cluster's own word on how far the restore came decides, or a look at the topic.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.pipeline.restore.offset_map import CommittedRun
from services.pipeline.restore.task import Hopeless
from services.regular_file import read_regular
from services.rights import open_new

MOST_BYTES = 1024 * 1024 * 1024
"""No such file is larger."""


@dataclass(frozen=True, slots=True)
class Announced:
    """Records that one transaction was to commit."""

    id: str
    runs: tuple[CommittedRun, ...]
    """By old offset; there are several where others wrote in between."""

    @property
    def first_offset(self) -> int:
        return self.runs[0].first_offset

    @property
    def next_offset(self) -> int:
        return self.runs[-1].next_offset

    def overlaps(self, other: Announced) -> bool:
        """Whether both hold the same stored records."""
        return self.first_offset < other.next_offset and other.first_offset < self.next_offset


@dataclass(frozen=True, slots=True)
class LoggedOffsets:
    """What a log says."""

    confirmed: tuple[Announced, ...] = ()
    """By old offset."""
    open: tuple[Announced, ...] = ()
    """Not confirmed, and of records that no confirmed one holds; in the order of the log."""

    @property
    def runs(self) -> list[CommittedRun]:
        """Of what was confirmed, by old offset."""
        return [run for one in self.confirmed for run in one.runs]

    @property
    def next_offset(self) -> int | None:
        """One past the last confirmed record; None without any."""
        return self.confirmed[-1].next_offset if self.confirmed else None


def read_log(path: Path) -> LoggedOffsets:
    """What the log at *path* says; nothing where there is none.

    A line torn by a kill counts for nothing: nobody had gone on from it.
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
    certain = sorted(confirmed.values(), key=lambda one: one.first_offset)
    waiting = [
        one
        for one in announced.values()
        if one.id not in confirmed and not any(map(one.overlaps, certain))
    ]
    return LoggedOffsets(tuple(certain), tuple(waiting))


def _parsed(line: bytes) -> Announced | str | None:
    try:
        document: Any = json.loads(line)
        if "confirmed" in document:
            return str(document["confirmed"])
        runs = tuple(CommittedRun(**one) for one in document["runs"])
        return Announced(str(document["id"]), runs) if runs else None
    except (ValueError, TypeError, KeyError):
        return None


class OffsetLog:
    """Writes one partition's log. Several may write at a time: none takes away from another."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def announce(self, runs: Sequence[CommittedRun]) -> Announced:
        """Write down what is about to be committed; on disk when this returns."""
        one = Announced(secrets.token_hex(8), tuple(runs))
        document = {"id": one.id, "runs": [run.document() for run in runs]}
        self._append(document, durable=True)
        return one

    def confirm(self, one: Announced) -> None:
        """Write down that it was committed."""
        self._append({"confirmed": one.id}, durable=False)

    def settle(self, reached: int | None, look: Callable[[Announced], bool]) -> int | None:
        """Confirm what came true of the open announcements; returns the next old offset.

        *reached* is the next old offset as the cluster knows it, None where it knows nothing any
        more. It may know less than is true: a coordinator that is killed between telling a producer
        that its transaction is committed and writing that down with the group's offsets can forget
        the latter. *look* tells of an announcement by the topic whether its records can be read as
        committed; it is asked where nothing else can tell.

        Raises:
            Hopeless: log and cluster contradict each other.
        """
        told = read_log(self._path)
        for one in told.open:
            alone = not any(other.id != one.id and one.overlaps(other) for other in told.open)
            past = reached is not None and one.next_offset <= reached
            if (past and alone) or look(one):
                self.confirm(one)
        told = read_log(self._path)
        found = told.next_offset
        if reached is None or found == reached:
            return found
        if found is None or found < reached or not look(told.confirmed[-1]):
            raise Hopeless(
                f"{self._path} knows of records before offset {found}, the cluster of those before "
                f"{reached}: use the --state folder that the restore was begun with, or restore "
                "into a topic of another name."
            )
        return found

    def _append(self, document: object, *, durable: bool) -> None:
        # A line of its own also behind one that was torn.
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
    """Stretches of records whose new offsets follow each other, from those of each record.

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
