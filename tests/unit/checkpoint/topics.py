"""Partitions as lists in memory: what the coordinator starts checkpoints in."""

from collections.abc import Callable, Mapping, Sequence

from breakglass.services.checkpoint.protocol.lineage import cut
from breakglass.services.checkpoint.protocol.values import Acknowledge, CheckpointState
from breakglass.services.checkpoint.store.documents import (
    GroupPolicy,
    Level,
    NumberedPartition,
    TakeDocument,
)
from tests.unit.checkpoint.store.stores import SUBJECTS

EPOCH = 7
"""Leader epoch of all records."""


class Logs:
    """One log for each partition: the checkpoint id that each record carries."""

    def __init__(self, subjects: Sequence[NumberedPartition] = SUBJECTS) -> None:
        self.subjects = tuple(subjects)
        self.records: dict[int, list[int]] = {subject.number: [0] * 5 for subject in subjects}
        self.silent: set[int] = set()
        """Partitions whose answers do not come."""
        self.asked: list[list[int]] = []
        self.before_start: Callable[[int], object] = lambda _: None
        """Called with the id before any partition starts."""
        self.refusal: Exception | None = None
        """What a start ends with."""
        self.incarnation = "first"

    def scope(self) -> TakeDocument:
        groups = {"payments": GroupPolicy.EXACTLY_ONCE}
        level, place = Level.COORDINATED, ("cluster", self.incarnation)
        return TakeDocument(0, level, self.subjects, "", 0, *place, groups)

    def latest_id(self) -> int:
        return max((id for log in self.records.values() for id in log), default=0)

    def passed(self, take: TakeDocument, positions: Mapping[int, int]) -> int:
        """No other coordinator is at work meanwhile."""
        return max(
            (id for one, at in positions.items() for id in self.records[one][:at]), default=0
        )

    def epochs(
        self, partitions: Sequence[NumberedPartition], positions: Mapping[int, int]
    ) -> Mapping[int, int]:
        assert {partition.number for partition in partitions} == set(positions)
        return dict.fromkeys(positions, EPOCH)

    def offsets(self, partitions: Sequence[NumberedPartition]) -> Mapping[str, Mapping[int, int]]:
        """These checkpoints are coordinated ones: offsets are read later."""
        del partitions
        return {}

    def transactions(self) -> None:
        """These checkpoints are coordinated ones."""

    def start(self, id: int, partitions: Sequence[NumberedPartition]) -> Mapping[int, Acknowledge]:
        self.before_start(id)
        if self.refusal is not None:
            raise self.refusal
        self.asked.append([partition.number for partition in partitions])
        answers = {}
        for number in self.asked[-1]:
            log = self.records[number]
            log.append(id)
            position = cut(enumerate(log), id)
            assert position is not None
            state = CheckpointState(max(log), position)
            answers[number] = Acknowledge(id, state, started=position == len(log) - 1)
        return {number: one for number, one in answers.items() if number not in self.silent}
