"""Places of backups that tests look at: real folders, and standings that no folder is behind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

from breakglass.console.app import BreakglassApp
from breakglass.screens.backups import BackupsScreen
from breakglass.services.backup_watch.job import Job, Life, SeenJob
from breakglass.services.backup_watch.location import LiveEnds, LocationHeld, TopicHeld
from breakglass.services.backup_watch.watch import BackupWatch
from breakglass.services.errors import StorageError
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.topic_backup.catalog import PartitionStatus, TopicStatus
from breakglass.services.topic_backup.notes import Verified
from tests.kit.incidents import CLUSTER, nothing_offline
from tests.screens.consoles import console_on

NOW_MS = 1_700_000_000_000
MINUTE, HOUR = 60_000, 3_600_000
MAIN, FAR = "/backups/main", "/mnt/far"
TOPIC_ID = UUID(int=7)


def partition(number: int, records: int = 1_000, **changes: object) -> PartitionStatus:
    """A partition without gaps that ends at *records*."""
    whole = PartitionStatus(
        partition=number,
        first_offset=0,
        last_offset=records - 1,
        next_offset=records,
        records=records,
        bytes=records * 1_100,
        segments=2,
        damage=(),
        gaps={},
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def verified(how: str = "files", *, commit: int = 3, whole: bool = True) -> Verified:
    against = "orders" if how == "content" else None
    return Verified(NOW_MS - HOUR, commit, how, against, whole)


def topic(
    name: str,
    *partitions: PartitionStatus,
    generation: int = 1,
    newest: bool = True,
    checked: Verified | None = None,
    age_ms: int = 5 * MINUTE,
    commit: int | None = 3,
) -> TopicHeld:
    """A topic whose third commit is five minutes old."""
    status = TopicStatus(
        topic=name,
        generation=generation,
        folder=f"{MAIN}/{name}",
        commit=commit,
        committed_at_ms=None if commit is None else NOW_MS - age_ms,
        verified=checked,
        partitions=partitions,
        group_states=4,
        cluster_id=CLUSTER,
        topic_id=TOPIC_ID,
    )
    return TopicHeld(name, generation, newest, status)


def every_state() -> LocationHeld:
    hole = partition(1, gaps={"lost": 12, "control": 40, "aborted": 3})
    unread = "/backups/main/torn/breakglass_manifest.json: no JSON; restore it from another copy"
    topics = (
        topic("audit", commit=None),
        topic("clicks", partition(0), checked=verified(whole=False)),
        topic("orders", partition(0), hole, newest=False, checked=verified("content")),
        topic("orders", partition(0, 50), generation=2, checked=verified("content")),
        topic(
            "payments", *(partition(number, 3_000_000) for number in range(3)), checked=verified()
        ),
        topic("refunds", partition(0), checked=verified(commit=2), age_ms=49 * HOUR),
        TopicHeld("torn", 1, True, None, unread),
    )
    return LocationHeld(topics)


def ends_of(*lags: tuple[str, int, int | Unknown]) -> LiveEnds:
    ends = {TopicPartition(name, number): end for name, number, end in lags}
    return LiveEnds(CLUSTER, ends, {name: TOPIC_ID for name, _, _ in lags})


ENDS = ends_of(
    ("clicks", 0, 1_000),
    ("orders", 0, 75),
    ("payments", 0, 3_000_000),
    ("payments", 1, 3_000_400),
    ("payments", 2, Unknown("it is offline: no leader serves it")),
    ("refunds", 0, 1_500),
)


def job(kind: str = "backup", url: str = MAIN, **changes: object) -> Job:
    """A job that has been copying payments for 20 seconds."""
    begun = Job(
        kind, url, "ops@bastion", "bastion", 4711, NOW_MS - MINUTE, NOW_MS - 1_000,
        "payments", 1_200_000, 2_000_000, 2_200_000_000, 20.0,
    )  # fmt: skip
    return replace(begun, **changes)  # type: ignore[arg-type]


def seen(job: Job, life: Life = Life.RUNNING) -> SeenJob:
    return SeenJob(job, life, Path("/state/backup-jobs/4711-0.json"))


Held: TypeAlias = LocationHeld | StorageError | Callable[[], LocationHeld]


class Places:
    def __init__(self, held: Mapping[str, Held]) -> None:
        self.held = dict(held)
        self.reads: list[str] = []

    def __call__(self, url: str) -> LocationHeld:
        self.reads.append(url)
        held = self.held[url]
        if isinstance(held, StorageError):
            raise held
        return held if isinstance(held, LocationHeld) else held()


class CannedBackups(BackupWatch):
    def __init__(self, places: Places, jobs: Sequence[SeenJob] = ()) -> None:
        self.jobs = tuple(jobs)
        self.at_ms = NOW_MS
        super().__init__(
            tuple(places.held), read=places, now_ms=lambda: self.at_ms, jobs=lambda _: self.jobs
        )


def backups_of(watch: BackupWatch, **options: Any) -> BreakglassApp:
    console = console_on(nothing_offline(), **options)
    plugged = replace(console.context, backups=watch)
    return BreakglassApp(plugged, theme=console.theme, start="backups")


def screen_of(console: BreakglassApp) -> BackupsScreen:
    screen = console.screen_stack[0]
    assert isinstance(screen, BackupsScreen)
    return screen
