"""A backup without an end, in a thread of its own."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from breakglass.services.pipeline.backup_context import BackupReport, BackupRun, BackupSettings
from breakglass.services.pipeline.continuous import Followed, follow
from breakglass.services.pipeline.source import WantedTopics
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.store.store import LocalStore
from tests.kit.waiting import wait_until
from tests.lab.backup.backups import BackUp, unheard

SELDOM = 600.0
"""Seconds between two runs: whatever is copied meanwhile, the stream copied, or a new shape."""


@dataclass(slots=True)
class Following:
    """A backup without an end, in a thread of its own."""

    back_up: BackUp
    over: threading.Event = field(default_factory=threading.Event)
    reports: list[BackupReport] = field(default_factory=list)
    then: Callable[[], None] | None = None
    """Done once, after the next report and before anything else is copied."""
    done: Followed | None = None

    def run(self, pattern: str, every: float) -> None:
        settings = BackupSettings(LocalStore(self.back_up.root))
        client, spark, access = self.back_up.client, self.back_up.spark, self.back_up.access
        self.done = follow(
            lambda meter: BackupRun(client, spark, access, settings, meter),
            WantedTopics(pattern=pattern),
            unheard,
            self.over.is_set,
            every=every,
            told=self._told,
        )

    def _told(self, report: BackupReport) -> None:
        self.reports.append(report)
        then, self.then = self.then, None
        if then is not None:
            then()

    def await_true(self, condition: Callable[[], bool]) -> None:
        """Wait until *condition* holds."""
        wait_until(condition, "the stream", instead=lambda: self.reports[-1:])

    def await_end(self, topic: str, end: int, partition: int = 0) -> None:
        """Wait until everything before *end* is committed."""

        def there() -> bool:
            manifest = read_manifest(self.back_up.folder(topic))
            held = manifest.partition(partition) if manifest else None
            return held is not None and (held.next_offset or 0) >= end

        self.await_true(there)


@contextmanager
def following(back_up: BackUp, pattern: str, every: float = SELDOM) -> Iterator[Following]:
    """Follow the topics that fit *pattern*; the first run is done."""
    back_up.spark.context()
    followed = Following(back_up)
    thread = threading.Thread(target=followed.run, args=(pattern, every))
    thread.start()
    try:
        followed.await_true(lambda: bool(followed.reports))
        yield followed
    finally:
        followed.over.set()
        thread.join()
