"""The live backup of one command topic: compared from its beginning, then appended to.

Records that `take` returned for are on disk. When the backup is continued, side entries that a
crash lost are rebuilt from the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path

from breakglass.services.clock import now_ms
from breakglass.services.errors import ConflictingRecord
from breakglass.services.metastore.appender import (
    REBUILT,
    Appender,
    Ended,
    Restart,
    find_tail,
    side_of,
)
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
from breakglass.services.metastore.private_files import (
    lock_file,
    locked,
    private_append,
    private_folder,
    remove_if_there,
)
from breakglass.services.metastore.settings import BackupName, Style, new_name, newest
from breakglass.services.metastore.side_file import SideHeader, side_extent, stored_records
from breakglass.services.regular_file import open_regular
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
