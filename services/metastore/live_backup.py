"""The live backup of one command topic: compared from its beginning, then appended to.

Records that `take` returned for are on disk. When the backup is continued, side entries that a
crash lost are rebuilt from the topic.

Compacts a backup: removes terminated and superseded queries, keeps objects and ids.

Does what ksqlDB's RestoreCommandsCompactor does on each start, but into a new file: commands keep
their offsets, ids and times. A replay of both files proves that they are the same metastore. Only a
restore replaces the topic's content with the new file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp

from breakglass.services.clock import now_ms
from breakglass.services.errors import ConflictingRecord, MalformedInput, Refused, StorageError
from breakglass.services.metastore.appender import (
    REBUILT,
    Appender,
    Ended,
    Restart,
    find_tail,
    side_of,
)
from breakglass.services.metastore.command import EntityType
from breakglass.services.metastore.events import (
    Begun,
    CommandDifference,
    Continued,
    Flagged,
    Mended,
    Shorter,
    Tell,
)
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.log.reader import AppliedCommand, Replay
from breakglass.services.metastore.metastore import Metastore
from breakglass.services.metastore.restore.plan import RestoreSource
from breakglass.services.metastore.settings import (
    BackupName,
    Style,
    lock_file,
    locked,
    new_name,
    newest,
    private_append,
    private_folder,
    remove_if_there,
)
from breakglass.services.metastore.side_file import SideHeader, side_extent, stored_records
from breakglass.services.metastore.statements.parsing import ALL
from breakglass.services.regular_file import open_regular
from breakglass.services.rights import make_folders
from breakglass.services.topic_backup.folder import LocalFolder, storage_errors

COPIED_AT_ONCE = 1_000
"""Commands in each group when a new file receives the commands shared with the old file."""


@dataclass(frozen=True, slots=True)
class BackedUpTopic:
    """The topic that is backed up."""

    topic: str
    topic_id: str
    cluster_id: str


class LiveBackup:
    """The backups of one service in a folder, opened by `open_backup` under its lock."""

    def __init__(
        self,
        folder: LocalFolder,
        origin: BackedUpTopic,
        tell: Tell,
        *,
        style: Style = Style.KLIP,
        fail_on_difference: bool = False,
        now_ms: Callable[[], int] = now_ms,
    ) -> None:
        self._folder = folder
        self.origin = origin
        self._tell = tell
        self._style = style
        self._fail = fail_on_difference
        self._now_ms = now_ms
        self._restart: Restart | None = None
        self._appender: Appender | None = None
        self.appended = 0
        """Commands written by this run."""
        self.name: BackupName | None = newest(folder.names(), origin.topic)
        if self.name is not None:
            data = self._folder.path / str(self.name)
            side = side_of(data)
            remove_if_there(side.with_name(side.name + REBUILT))
            extent = side_extent(side)
            self._mend(data, None if extent is None else extent.covered)
            self._restart = Restart(
                data, side, self._header(), None if extent is None else extent.header
            )

    @property
    def path(self) -> Path | None:
        """The file that is compared or written; None before the first command."""
        return None if self.name is None else self._folder.path / str(self.name)

    @property
    def lines(self) -> int:
        """The number of commands that the topic and the file have in common so far."""
        if self._restart is not None:
            return self._restart.lines
        return 0 if self._appender is None else self._appender.lines

    def take(self, records: Sequence[CommandRecord]) -> None:
        """Compare *records*, the next of the topic, and put the new records on disk.

        Raises:
            ConflictingRecord: the topic differs from the backup, and a new file is not allowed.
            StorageError: a file cannot be written, or another program writes to it.
        """
        rest = records
        if self._restart is not None:
            same, outcome = self._restart.take(records)
            if outcome is Ended.BACKUP:
                self._go_on(self._restart)
            elif outcome is not None:
                self._part(self._restart, outcome)
            rest = records[same:]
        if rest:
            if self._appender is None:
                self._begin()
            odd = self._write(rest)
            self.appended += len(rest)
            for record in rest if odd else ():
                if record.problem:
                    self._tell(Flagged(str(self.name), record.offset, record.problem))

    def reached_end(self) -> int:
        """The topic has no more commands for now: report and return the number of lines left."""
        restart = self._restart
        if restart is None:
            return 0
        missing = restart.rest()
        if missing:
            self._tell(Shorter(str(self.name), restart.lines, missing))
        else:
            self._go_on(restart)
        return missing

    def sync(self) -> None:
        """Sync the side file to disk, too; worthwhile whenever the topic is quiet."""
        if self._appender is not None:
            self._appender.sync_side()

    def close(self) -> None:
        if self._restart is not None:
            self._restart.close()
        if self._appender is not None:
            self._appender.close()
        self._restart = self._appender = None

    def _mend(self, data: Path, covered: int | None) -> None:
        """Cut off the remainder of a killed writer, or complete its last line."""
        with storage_errors(str(data)), open_regular(data) as file:
            tail = find_tail(file, covered)
        if not tail.cut and not tail.lacks_newline:
            return
        end = private_append(data, tail.whole)
        try:
            if tail.lacks_newline:
                end.write(b"\n")
            end.sync()
        finally:
            end.close()
        done = "the last line was ended" if tail.lacks_newline else f"{tail.cut:,} torn bytes cut"
        self._tell(Mended(data.name, f"{done}, as a killed writer left it"))

    def _go_on(self, restart: Restart) -> None:
        position = restart.finish()
        restart.close()
        self._restart = None
        assert self.path is not None
        self._appender = Appender(self.path, position)
        self._folder.sync()
        self._tell(Continued(str(self.name), position.lines))

    def _part(self, restart: Restart, difference: CommandDifference) -> None:
        """Begin a new file with the common commands, and keep the old file unchanged."""
        before = str(self.name)
        if self._fail:
            raise ConflictingRecord(
                f"Backup is out of sync with the current command topic ({before}): {difference}. "
                "Backups will not work until the previous command topic is restored or all backup "
                "files are deleted; --on-divergence new-file begins another."
            )
        data, side, count = restart.prefix()
        self._begin(difference, before)
        with storage_errors(str(side)), open_regular(data) as lines, open_regular(side) as entries:
            shared = stored_records(lines, entries, count)
            while group := list(islice(shared, COPIED_AT_ONCE)):
                self._write(group)
        self._restart = None
        restart.close()

    def _begin(self, difference: CommandDifference | None = None, before: str = "") -> None:
        """Begin a file, its side file first: a backup counts once the file itself exists."""
        names = self._folder.names()
        name = new_name(names, self.origin.topic, self._style, self._now_ms())
        told = {} if difference is None else {"before": before, **asdict(difference)}
        path = self._folder.path / str(name)
        self._appender = Appender.begin(path, replace(self._header(), diverged=told))
        self._folder.sync()
        self.name = name
        self._tell(Begun(str(name), difference, before))

    def _write(self, records: Sequence[CommandRecord]) -> bool:
        assert self._appender is not None
        return self._appender.append(records)

    def _header(self) -> SideHeader:
        where = self.origin
        return SideHeader(where.topic, where.topic_id, where.cluster_id, self._now_ms())


@contextmanager
def open_backup(
    location: Path,
    origin: BackedUpTopic,
    tell: Tell,
    *,
    style: Style = Style.KLIP,
    fail_on_difference: bool = False,
    now_ms: Callable[[], int] = now_ms,
) -> Iterator[LiveBackup]:
    """Open the backup of *origin* in the folder *location*; `take` gets the topic from its start.

    Raises:
        AlreadyRunning: another process backs up this service there.
        StorageError: the folder or a file cannot be used.
    """
    folder = private_folder(location)
    with (
        locked(lock_file(location, origin.topic)),
        closing(
            LiveBackup(
                folder,
                origin,
                tell,
                style=style,
                fail_on_difference=fail_on_difference,
                now_ms=now_ms,
            )
        ) as backup,
    ):
        yield backup


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
