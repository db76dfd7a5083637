"""What is new in partitions, looked for every second: micro-batches as soon as there are records.

Where the partitions begin is for the manifests to say, and which of them there are for a run. A
partition whose leader does not answer holds up no other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType

from services.errors import BreakglassError
from services.kafka.replicas.list_offsets import (
    LATEST,
    LEADER_ONLY,
    READ_COMMITTED,
    ListedOffset,
    list_offsets,
)
from services.kafka.wire.deadline import Deadline
from services.model import TopicPartition
from services.pipeline.backup_context import BackupRun
from services.pipeline.micro_batch import BatchRanges
from services.pipeline.session import jvm_errors

TRIGGER_SECONDS = 1.0
"""How often it is looked for new records."""
ASK_SECONDS = 5.0
"""How long a broker may take to answer."""

Ends = Mapping[TopicPartition, int]
"""The next offset of each partition."""


class Stream:
    """Entered, it runs in a thread of its own until the block ends."""

    def __init__(
        self, run: BackupRun, ends: Ends, each: Callable[[BatchRanges], None], trigger: float
    ) -> None:
        """Prepare the partitions of *ends* from there on; *each* gets the batches, in the thread.

        A batch begins *trigger* seconds after the one before it began, or when that is done.
        """
        self._run = run
        self._ends = dict(ends)
        self._each = each
        self._trigger = trigger
        self._led: dict[int, dict[TopicPartition, int]] = {}
        """Each leader's partitions with their leader epochs; empty: to be asked."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="stream", daemon=True)

    def __enter__(self) -> Stream:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    @property
    def running(self) -> bool:
        """Whether batches are still to come, and Spark is there to copy them."""
        if not self._thread.is_alive():
            return False
        try:
            require_spark(self._run)
        except BreakglassError:
            return False
        return True

    def _follow(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            ranges = self._new()
            if ranges:
                self._each(ranges)
                self._ends.update({one: end for one, (_, end) in ranges.items()})
            self._over.wait(max(0.0, began + self._trigger - time.monotonic()))

    def _new(self) -> BatchRanges:
        """What lies between the last look and the stable ends, as far as they are told."""
        most = self._run.settings.offsets_a_job
        return {
            one: (self._ends[one], min(end, self._ends[one] + most))
            for one, end in self._stable_ends().items()
            if end > self._ends[one]
        }

    def _stable_ends(self) -> dict[TopicPartition, int]:
        try:
            self._led = self._led or self._leaders()
        except BreakglassError:
            # A run asks the same, and says what it is told.
            return {}
        found: dict[TopicPartition, int] = {}
        for leader, epochs in self._led.items():
            found |= self._told_by(leader, epochs)
        if found.keys() != self._ends.keys():
            self._led = {}
        return found

    def _told_by(self, leader: int, epochs: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The stable ends that *leader* tells; one that leads no more tells none."""
        try:
            told = list_offsets(
                self._run.client.sender,
                leader,
                epochs,
                LATEST,
                Deadline.after(ASK_SECONDS),
                replica_id=LEADER_ONLY,
                leader_epochs=epochs,
                isolation_level=READ_COMMITTED,
            )
        except BreakglassError:
            return {}
        return {one: end.offset for one, end in told.items() if isinstance(end, ListedOffset)}

    def _leaders(self) -> dict[int, dict[TopicPartition, int]]:
        deadline = Deadline.after(ASK_SECONDS)
        topics = sorted({one.topic for one in self._ends})
        self._run.client.describe(deadline)
        led: dict[int, dict[TopicPartition, int]] = {}
        for state in self._run.client.partitions(topics, deadline):
            if state.partition in self._ends and state.leader is not None:
                led.setdefault(state.leader, {})[state.partition] = state.leader_epoch
        return led


def require_spark(run: BackupRun) -> None:
    """Return if Spark's JVM answers.

    Raises:
        PipelineError: it has ended, and no job can be run any more.
    """
    context = run.context()
    with jvm_errors("backing up"):
        context.startTime  # noqa: B018
