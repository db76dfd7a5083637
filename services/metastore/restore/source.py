"""The commands to restore: read from a backup, checked, with their original offsets."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

from breakglass.services.errors import MalformedInput, Refused
from breakglass.services.metastore.command import VERSION, Command, CommandId
from breakglass.services.metastore.lines import (
    BackupLine,
    CommandRecord,
    Finding,
    LineFinding,
    checked,
    read_lines,
)
from breakglass.services.metastore.side_file import SideEntry, SideHeader, verify_backup
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
    newest: int = VERSION,
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
        for line in checked(read_lines(data), newest, noted=verified.noted_bytes):
            for finding in line.findings:
                if not (only_read and finding.finding is Finding.ENDS_CLUSTER):
                    _judge(finding, skips, skipped, notes)
            left_out = not only_read and any(
                one.finding is Finding.ENDS_CLUSTER for one in line.findings
            )
            if line.id is not None and line.command is not None and not left_out:
                good.append((line.line, line.id, line.command))
    known = _known(good, entries)
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


def _known(
    good: list[tuple[BackupLine, CommandId, Command]], entries: dict[int, SideEntry]
) -> list[int] | None:
    offsets = [entries[line.end].offset for line, _, _ in good if line.end in entries]
    grows = all(one < other for one, other in pairwise(offsets))
    return offsets if len(offsets) == len(good) and grows else None


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
