"""Saves what elections will cut off: all brokers at once, each into a backup of its own.

::

    DIR/<cluster id>/<UTC time>/b<broker>/<topic>/...   the Kafka Backup format

A partition that cannot be saved whole is named with the reason; the others go on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.services.errors import BreakglassError, Refused
from breakglass.services.guard.lock import file_name
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.rate_limit import RateLimit
from breakglass.services.kafka.wire.retry import until
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.judgement.precedence import recovery_order
from breakglass.services.recovery.rescue.results import RescuedPartition, RescueProgress
from breakglass.services.recovery.rescue.space import FreeBytes, free_bytes, without_room
from breakglass.services.recovery.rescue.spans import AtRisk, Share, shares_of
from breakglass.services.topic_backup.folder import LocalFolder, storage_errors

if TYPE_CHECKING:
    from breakglass.services.recovery.rescue.saver import Saver, ShareResult

CLIENT_ID = "breakglass-rescue"
"""Fetch quotas can be set on it."""
BYTES_PER_SECOND = 50 * 1024 * 1024
"""How fast all brokers together are read unless told otherwise."""
DESCRIBE_SECONDS = 10.0
STOP_LOOK_SECONDS = 0.2

Connect = Callable[[], AbstractContextManager[ReadClient]]
"""Opens a client of id `CLIENT_ID`; called only when there is something to be read."""


def new_folder(to: Path, cluster_id: str) -> Path:
    """A folder under *to* for one rescue; nothing is made yet."""
    return to / file_name(cluster_id) / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"


@dataclass(frozen=True, slots=True)
class Rescuer:
    """What rescues of one cluster work with."""

    cluster_id: str
    connect: Connect
    limit: RateLimit
    stop: Callable[[], bool] = lambda: False
    """Asked now and then; once true, what is not saved by then is given up."""
    free: FreeBytes = free_bytes
    progress: Callable[[RescueProgress], None] = lambda _: None
    """Told now and then, in the thread that rescues."""

    def rescue(self, at_risk: Sequence[AtRisk], folder: Path) -> tuple[RescuedPartition, ...]:
        """Save into *folder* what electing each of *at_risk* cuts off; one result each.

        Never raises for a broker, a disk or a partition: that is the partition's reason.
        """
        shares, reasons = divide(at_risk)
        try:
            reasons |= self._prepare(shares, folder)
            admitted = [one for name, held in shares.items() if name not in reasons for one in held]
            attempts = self._save(admitted, folder) if admitted else []
        except BreakglassError as error:
            attempts = []
            reasons = {**dict.fromkeys(shares, str(error)), **reasons}
        done: dict[TopicPartition, list[ShareResult]] = {}
        for attempt in attempts:
            done.setdefault(attempt.partition, []).append(attempt)
        return tuple(
            _rescued(one, reasons.get(one.partition, ""), done.get(one.partition, ()))
            for one in at_risk
        )

    def _prepare(
        self, shares: Mapping[TopicPartition, tuple[Share, ...]], folder: Path
    ) -> dict[TopicPartition, str]:
        """Make *folder*, for this user alone; the partitions that will not fit there."""
        refused = without_room(shares, folder, self.free)
        if len(refused) < len(shares):
            LocalFolder.create(folder)
            with storage_errors(str(folder)):
                folder.chmod(0o700)
        return refused

    def _save(self, shares: Sequence[Share], folder: Path) -> list[ShareResult]:
        stopped, tally = threading.Event(), RescueTally(shares, folder)
        self.progress(tally.progress)
        with self.connect() as client:
            deadline = Deadline.after(DESCRIBE_SECONDS)
            until(deadline, lambda: client.describe(deadline))
            brokers = sorted({one.replica.broker for one in shares})
            savers = {
                broker: self._saver(client, broker, folder, stopped, tally) for broker in brokers
            }
            with ThreadPoolExecutor(len(savers), "rescue") as pool:
                work = [
                    pool.submit(_run, saver, [s for s in shares if s.replica.broker == broker])
                    for broker, saver in savers.items()
                ]
                self._watch(work, stopped, tally)
        return [attempt for done in work for attempt in done.result()]

    def _saver(
        self,
        client: ReadClient,
        broker: int,
        folder: Path,
        stopped: threading.Event,
        tally: RescueTally,
    ) -> Saver:
        # The writers of backups are of no use to an election that cuts nothing off.
        from breakglass.services.recovery.rescue.saver import Saver

        def pause(seconds: float) -> None:
            if stopped.wait(seconds):
                raise Refused("stopped on request before it was saved")

        root = folder / f"b{broker}"
        return Saver(
            client.sender,
            broker,
            root,
            self.cluster_id,
            self.limit,
            pause,
            self.free,
            tally.add,
        )

    def _watch(
        self,
        work: Sequence[Future[list[ShareResult]]],
        stopped: threading.Event,
        tally: RescueTally,
    ) -> None:
        """Wait for *work*, and let it end early when this is to stop."""
        try:
            while wait(work, STOP_LOOK_SECONDS).not_done and not self.stop():
                self.progress(tally.progress)
        finally:
            stopped.set()


@dataclass(slots=True)
class RescueTally:
    """Counts what all brokers' threads have copied."""

    shares: Sequence[Share]
    folder: Path
    copied: int = 0
    _adding: threading.Lock = field(default_factory=threading.Lock)

    def add(self, records: int) -> None:
        """Count *records* more."""
        with self._adding:
            self.copied += records

    @property
    def progress(self) -> RescueProgress:
        partitions = len({one.partition for one in self.shares})
        return RescueProgress(
            self.folder, partitions, self.copied, sum(one.offsets for one in self.shares)
        )


def _run(saver: Saver, shares: Sequence[Share]) -> list[ShareResult]:
    from breakglass.services.recovery.rescue.saver import ShareResult

    try:
        return list(saver.run(shares))
    except Exception as error:  # noqa: BLE001 -- a thread ends here; its partitions are held
        reason = f"b{saver.broker} cannot be rescued ({type(error).__name__}: {error})"
        return [ShareResult(one.partition, None, reason) for one in shares]


def divide(
    at_risk: Sequence[AtRisk],
) -> tuple[dict[TopicPartition, tuple[Share, ...]], dict[TopicPartition, str]]:
    """The shares of partitions that something is to be saved of, and why others cannot be."""
    shares: dict[TopicPartition, tuple[Share, ...]] = {}
    reasons: dict[TopicPartition, str] = {}
    for one in sorted(at_risk, key=lambda one: recovery_order(one.partition)):
        held = shares_of(one)
        if isinstance(held, Unknown):
            reasons[one.partition] = held.reason
        elif held:
            shares[one.partition] = held
    return shares, reasons


def _rescued(at_risk: AtRisk, reason: str, attempts: Sequence[ShareResult]) -> RescuedPartition:
    saved = tuple(one.saved for one in attempts if one.saved is not None)
    why = reason or next((one.reason for one in attempts if one.reason), "")
    return RescuedPartition(at_risk.partition, at_risk.designee, saved, why)
