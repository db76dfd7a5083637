"""Compacts a backup: removes terminated and superseded queries, keeps objects and ids.

Does what ksqlDB's RestoreCommandsCompactor does on each start, but into a new file: commands keep
their offsets, ids and times. A replay of both files proves that they are the same metastore. Only a
restore replaces the topic's content with the new file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

from breakglass.services.errors import MalformedInput, Refused, StorageError
from breakglass.services.metastore.command import EntityType
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.live_backup import BackedUpTopic, open_backup
from breakglass.services.metastore.log.reader import AppliedCommand, Replay
from breakglass.services.metastore.metastore import Metastore
from breakglass.services.metastore.restore.source import RestoreSource
from breakglass.services.metastore.statements.parsing import ALL
from breakglass.services.rights import make_folders
from breakglass.services.topic_backup.folder import LocalFolder, storage_errors

TOGGLES = (EntityType.PAUSE, EntityType.RESUME)


@dataclass(slots=True)
class Compacted:
    """What compaction did to the commands of a backup."""

    before: int
    records: tuple[CommandRecord, ...]
    dropped: tuple[int, ...]
    stripped: tuple[int, ...]
    """Offsets of commands that lost their query and kept their object."""
    digest: str
    """The digest of the metastore to which both files replay."""


@dataclass(slots=True)
class _Life:
    """One run of a query, from the command that starts it to the command that ends it."""

    begun: int
    """The index of a command."""
    ended: int | None = None
    by_id: list[int] = field(default_factory=list)
    """Commands that paused or resumed only this query."""


def compact(records: Sequence[CommandRecord]) -> Compacted:
    """Remove from *records* the commands of ended queries.

    The last command that changed objects stays unchanged, because the number of the next query
    derives from its offset.

    Raises:
        MalformedInput: a command cannot be applied, so nothing can be proved.
        StorageError: the two replay to different metastores, so nothing is returned.
    """
    commands, lives, metastore = _traced(records)
    last = max((i for i, one in enumerate(commands) if _counts(one)), default=-1)
    # Commands that started a query which has ended, and that are not needed without it.
    gone = {
        run.begun
        for runs in lives.values()
        for run in runs
        if run.ended is not None and run.begun != last and commands[run.begun].command.plan
    }
    drop = set(_needless(commands, lives, gone))
    kept: list[CommandRecord] = []
    stripped = []
    for index, (record, entry) in enumerate(zip(records, commands, strict=True)):
        if index in gone and not (
            entry.command.plan is not None and entry.command.plan.ddl is not None
        ):
            drop.add(index)
        elif index in gone:
            # The command reduced to the object that it creates (KsqlPlan.withoutQuery).
            value = record.value or b""
            body = json.loads(value)
            body["plan"]["queryPlan"] = None
            without_query = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(
                "utf-8", "surrogatepass"
            )
            kept.append(record._replace(value=without_query))
            stripped.append(record.offset)
        elif index not in drop:
            kept.append(record)
    dropped = tuple([records[index].offset for index in sorted(drop)])
    told = Compacted(len(records), tuple(kept), dropped, tuple(stripped), metastore.digest)
    _prove(told)
    return told


def _traced(
    records: Sequence[CommandRecord],
) -> tuple[list[AppliedCommand], dict[str, list[_Life]], Metastore]:
    """The commands, the runs of each query, and the metastore at the end."""
    commands: list[AppliedCommand] = []
    lives: dict[str, list[_Life]] = {}
    replay = Replay(commands.append)
    running: dict[str, int] = {}
    for index, record in enumerate(records):
        if not replay.take(record):
            raise MalformedInput(
                f"the commands cannot be replayed, so none is left out: {replay.degraded}."
            )
        now = {query.id: query.offset for query in replay.metastore.queries.values()}
        for query in running.keys() - now.keys():
            lives[query][-1].ended = index
        for query, offset in now.items():
            if running.get(query) != offset:
                if query in running:
                    lives[query][-1].ended = index
                lives.setdefault(query, []).append(_Life(index))
        key = commands[-1].id
        if key.type in TOGGLES and key.entity in now:
            lives[key.entity][-1].by_id.append(index)
        running = now
    return commands, lives, replay.metastore


def _needless(
    commands: list[AppliedCommand], lives: dict[str, list[_Life]], gone: set[int]
) -> Iterator[int]:
    """Commands about queries that change nothing once the ended queries are removed."""
    kept_ends = {run.ended for runs in lives.values() for run in runs if run.begun not in gone}
    for index, one in enumerate(commands):
        if one.id.type is EntityType.TERMINATE and index not in kept_ends:
            yield index
    for runs in lives.values():
        for life in runs:
            yield from life.by_id if life.begun in gone else life.by_id[:-1]
    for index, one in enumerate(commands):
        if one.id.type in TOGGLES and one.id.entity != ALL and one.id.entity not in lives:
            yield index


def _counts(entry: AppliedCommand) -> bool:
    """Whether the number of the next query derives from the command."""
    kind = entry.id.type
    return kind not in (*TOGGLES, EntityType.TERMINATE, EntityType.CLUSTER)


def _prove(told: Compacted) -> None:
    replay = Replay()
    for record in told.records:
        replay.take(record)
    if replay.degraded is not None or replay.metastore.digest != told.digest:
        raise StorageError(
            "without what has ended, the commands do not become the same metastore: nothing was "
            "written; restore the backup as it is, and report this"
        )


def write_compacted(source: RestoreSource, told: Compacted, folder: Path) -> Path:
    """Write the remaining commands as a backup in *folder*, which must be new or empty.

    Raises:
        Refused: the folder is not empty, or the backup has no side file to take offsets from.
        StorageError: the backup cannot be written.
    """
    header = source.header
    if header is None or source.known is None:
        raise Refused(
            f"{source.file.name} has no side file that tells the offsets of its commands, and a "
            "compacted backup keeps them: compact one that Breakglass wrote"
        )
    with storage_errors(str(folder)):
        if folder.exists() and any(folder.iterdir()):
            raise Refused(f"{folder} is not empty: name a new folder, so that nothing is mixed up")
    origin = BackedUpTopic(header.topic, header.topic_id, header.cluster_id)
    with storage_errors(str(folder)):
        make_folders(folder.parent)
        aside = Path(mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    with open_backup(aside, origin, lambda _: None) as backup:
        backup.take(told.records)
        assert backup.name is not None
        name = str(backup.name)
    with storage_errors(str(folder)):
        # A partial file would be a valid smaller backup, so rename only the complete file.
        aside.rename(folder)
        LocalFolder(folder.parent).sync()
    return folder / name
