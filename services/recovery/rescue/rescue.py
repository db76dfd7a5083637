"""Saves what elections will cut off: all brokers at once, each into a backup of its own.

::

    DIR/<cluster id>/<UTC time>/b<broker>/<topic>/...   the Kafka Backup format

A partition that cannot be saved whole is named with the reason; the others continue. As a step
of a recovery, the rescue is in the journal before it begins and after it has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, Refused
from breakglass.services.guard.journal import Journal
from breakglass.services.guard.lock import file_name
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.limits import RateLimit
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.model import PartitionEvidence, TopicPartition, Unknown
from breakglass.services.recovery.execution.steps import RESCUE, described
from breakglass.services.recovery.execution.target import ElectionTarget
from breakglass.services.recovery.judgement.assessment import recovery_order
from breakglass.services.recovery.remembered.store import ReplicaMemory
from breakglass.services.recovery.rescue.spans import (
    AtRisk,
    FreeBytes,
    RescuedPartition,
    RescueProgress,
    Share,
    Shares,
    free_bytes,
    newest_within,
    room,
    shares_of,
    without_room,
)
from breakglass.services.session import ReadAccess
from breakglass.services.topic_backup.folder import LocalFolder, storage_errors

if TYPE_CHECKING:
    from breakglass.services.recovery.rescue.saver import Saver, ShareResult


CLIENT_ID = "breakglass-rescue"
"""The client id, for which fetch quotas can be set."""
BYTES_PER_SECOND = 50 * 1024 * 1024
"""Default limit of the rate at which all brokers together are read."""
BEFORE_RETURN_BYTES = 10 * 1024 * 1024 * 1024
"""About how many bytes are saved before a return, where nothing else is asked for."""
STOP_LOOK_SECONDS = 0.2

Connect = Callable[[], AbstractContextManager[ReadClient]]
"""Opens a client of id `CLIENT_ID`; called only when something has to be read."""


def new_folder(to: Path, cluster_id: str) -> Path:
    """A folder under *to* for one rescue, which later commands find by memory; not created."""
    ReplicaMemory(cluster_id).note_rescue(to)
    return to / file_name(cluster_id) / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"


@dataclass(frozen=True, slots=True)
class Rescuer:
    """The rescuer of a cluster."""

    cluster_id: str
    connect: Connect
    limit: RateLimit
    stop: Callable[[], bool] = lambda: False
    """Called now and then; once true, the rescue stops and gives up what is not yet saved."""
    free: FreeBytes = free_bytes
    progress: Callable[[RescueProgress], None] = lambda _: None
    """Called now and then, in the thread that rescues."""
    most_bytes: int | None = None
    """About how many bytes are saved, the newest records first; None: all, or a partition fails."""

    def rescue(self, at_risk: Sequence[AtRisk], folder: Path) -> tuple[RescuedPartition, ...]:
        """Save into *folder* what electing each of *at_risk* cuts off; a result each.

        Never raises for a broker, a disk or a partition: that is the partition's reason.
        """
        shares, reasons = divide(at_risk)
        left_out: dict[TopicPartition, str] = {}
        try:
            if self.most_bytes is not None:
                shares, left_out = self._within_budget(shares, folder, self.most_bytes)
            # Make folder, readable by this user only; returns the partitions that will not fit.
            refused = without_room(shares, folder, self.free)
            if len(refused) < len(shares):
                LocalFolder.create(folder)
                with storage_errors(str(folder)):
                    folder.chmod(0o700)
            reasons |= refused
            admitted = [
                share for name, held in shares.items() if name not in reasons for share in held
            ]
            attempts = self._save(admitted, folder) if admitted else []
        except BreakglassError as error:
            attempts = []
            reasons = {**dict.fromkeys(shares, str(error)), **reasons}
        done: dict[TopicPartition, list[ShareResult]] = {}
        for attempt in attempts:
            done.setdefault(attempt.partition, []).append(attempt)
        return tuple(
            _rescued(
                risk,
                reasons.get(risk.partition) or left_out.get(risk.partition, ""),
                done.get(risk.partition, ()),
            )
            for risk in at_risk
        )

    def _within_budget(
        self, shares: Shares, folder: Path, most: int
    ) -> tuple[dict[TopicPartition, tuple[Share, ...]], dict[TopicPartition, str]]:
        """The newest of *shares* within *most* bytes and the disk's room, and what is left out."""
        space = room(folder, self.free)
        kept, left = newest_within(shares, min(most, space))
        limit = (
            f"no more than {most:,} bytes are saved (--max-bytes)"
            if most <= space
            else f"no more than {space:,} bytes may be used in {folder}"
        )
        reasons = {
            partition: f"{' and '.join(map(str, out))} are not saved: {limit}"
            for partition, out in left.items()
        }
        return kept, reasons

    def _save(self, shares: Sequence[Share], folder: Path) -> list[ShareResult]:
        stopped, tally = threading.Event(), RescueTally(shares, folder)
        self.progress(tally.progress)
        with self.connect() as client:
            deadline = Deadline.after(patience.REQUEST)
            until(deadline, lambda: client.describe(deadline))
            brokers = sorted({share.replica.broker for share in shares})
            savers = {
                broker: self._saver(client, broker, folder, stopped, tally) for broker in brokers
            }
            with ThreadPoolExecutor(len(savers), "rescue") as pool:
                work = [
                    pool.submit(_run, saver, [s for s in shares if s.replica.broker == broker])
                    for broker, saver in savers.items()
                ]
                try:
                    while wait(work, STOP_LOOK_SECONDS).not_done and not self.stop():
                        self.progress(tally.progress)
                finally:
                    stopped.set()
        return [attempt for done in work for attempt in done.result()]

    def _saver(
        self,
        client: ReadClient,
        broker: int,
        folder: Path,
        stopped: threading.Event,
        tally: RescueTally,
    ) -> Saver:
        # Imported here, because an election that cuts off nothing needs no writers of backups.
        from breakglass.services.recovery.rescue.saver import Saver

        def pause(seconds: float) -> None:
            if stopped.wait(seconds):
                raise Refused("stopped on request before it was saved")

        root = folder / f"b{broker}"
        return Saver(
            client.sender, broker, root, self.cluster_id, self.limit, pause, self.free, tally.add
        )


def rescuer(
    access: ReadAccess,
    cluster_id: str,
    stop: Callable[[], bool],
    bytes_per_second: int | None = None,
) -> Rescuer:
    """What rescues one cluster, at most *bytes_per_second*; None for the usual rate, 0 for any.

    Nothing is connected to before there is something to be read.
    """
    rate = BYTES_PER_SECOND if bytes_per_second is None else bytes_per_second or None
    return Rescuer(cluster_id, lambda: access.reading(CLIENT_ID), RateLimit(rate), stop)


@dataclass(slots=True)
class RescueTally:
    """Counts the records that the threads of all brokers have copied."""

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
        partitions = len({share.partition for share in self.shares})
        return RescueProgress(
            self.folder, partitions, self.copied, sum(share.offsets for share in self.shares)
        )


def _run(saver: Saver, shares: Sequence[Share]) -> list[ShareResult]:
    from breakglass.services.recovery.rescue.saver import ShareResult

    try:
        return list(saver.run(shares))
    except Exception as error:  # noqa: BLE001 -- a thread ends here; no election follows
        reason = f"b{saver.broker} cannot be rescued ({type(error).__name__}: {error})"
        return [ShareResult(share.partition, None, reason) for share in shares]


def divide(
    at_risk: Sequence[AtRisk],
) -> tuple[dict[TopicPartition, tuple[Share, ...]], dict[TopicPartition, str]]:
    """The shares to save, by partition, and why other partitions cannot be saved."""
    shares: dict[TopicPartition, tuple[Share, ...]] = {}
    reasons: dict[TopicPartition, str] = {}
    for risk in sorted(at_risk, key=lambda risk: recovery_order(risk.partition)):
        held = shares_of(risk)
        if isinstance(held, Unknown):
            reasons[risk.partition] = held.reason
        elif held:
            shares[risk.partition] = held
    return shares, reasons


def _rescued(at_risk: AtRisk, reason: str, attempts: Sequence[ShareResult]) -> RescuedPartition:
    saved = tuple(attempt.saved for attempt in attempts if attempt.saved is not None)
    why = reason or next((attempt.reason for attempt in attempts if attempt.reason), "")
    return RescuedPartition(at_risk.partition, at_risk.designee, saved, why)


SAVED = "saved"
NOT_SAVED = "not saved"


@dataclass(frozen=True, slots=True)
class JournalledRescue:
    """Rescues by the evidence on which the elections were agreed to (`run.Rescue`)."""

    rescuer: Rescuer
    evidence: Mapping[TopicPartition, PartitionEvidence]
    """The evidence of every target."""
    to: Path
    """Each rescue makes a folder of its own there."""
    tell: Callable[[Sequence[RescuedPartition]], None] = lambda _: None
    """Called with the result of every partition of which something was to be saved."""

    def needed(self, target: ElectionTarget) -> bool:
        """Whether electing *target* cuts off anything that may be saved; asks nobody."""
        return shares_of(self._at_risk(target)) != ()

    def save(
        self, targets: Sequence[ElectionTarget], journal: Journal
    ) -> Mapping[TopicPartition, str]:
        """Save what electing *targets* cuts off; gives a reason for each not saved whole.

        Raises:
            StorageError: the journal cannot be written.
        """
        at_risk = {target.partition: self._at_risk(target) for target in targets}
        shares, unknown = divide(list(at_risk.values()))
        endangered = [target for target in targets if target.partition in {*shares, *unknown}]
        if not endangered:
            return {}
        folder = new_folder(self.to, self.rescuer.cluster_id)
        items = {
            target.partition: {
                **described(target),
                "rescue": [
                    {"broker": share.replica.broker, "start": span.start, "end": span.end}
                    for share in shares.get(target.partition, ())
                    for span in share.spans
                ],
            }
            for target in endangered
        }
        request = journal.request(RESCUE, items, to=folder)
        results = self.rescuer.rescue([at_risk[target.partition] for target in endangered], folder)
        journal.outcome(
            request,
            {
                rescued.partition: {
                    "result": SAVED if rescued.whole else NOT_SAVED,
                    "reason": rescued.reason,
                    "saved": [
                        {
                            "broker": saved.broker,
                            "records": saved.records,
                            "bytes": saved.bytes,
                            "path": saved.path.absolute(),
                        }
                        for saved in rescued.saved
                    ],
                }
                for rescued in results
            },
        )
        self.tell(results)
        return {rescued.partition: rescued.reason for rescued in results if not rescued.whole}

    def _at_risk(self, target: ElectionTarget) -> AtRisk:
        return AtRisk(self.evidence[target.partition], target.designee)
