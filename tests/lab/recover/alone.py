"""Scenarios that share their lab with no other: a lab, what was found there, and what all must say.

Subclasses of `Alone` name their scenario and have the tests that hold for all.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, NamedTuple

from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.judgement.assessment import Assessment
from breakglass.services.recovery.triage import Triage, triage
from tests.lab.recover.session import Watched, judgement, watched
from tests.lab.recover.truths import differences, differences_without
from tests.lab.scenarios.damaged import Damaged, damaged


class Found(NamedTuple):
    """What triage yielded on a damaged lab."""

    lab: Damaged
    behind: Watched
    client: ReadClient
    yielded: tuple[Triage, ...]
    """As it came, the final one last."""
    without: Triage
    """The final one for an operator who knows that the broker to start is gone."""

    @property
    def last(self) -> Triage:
        return self.yielded[-1]

    def said(self, partition: TopicPartition) -> Assessment:
        """What is said of *partition* in the end."""
        return judgement(self.last, partition)


class Alone:
    """What holds for each of them."""

    SCENARIO: ClassVar[str]
    DURATION_SECONDS: ClassVar[float] = 3_600.0
    """A triage that waits for a broker which will not answer does not end before the test."""

    def test_triage_says_the_truth(self, found: Found) -> None:
        truth = found.lab.truth
        assert differences(found.last, truth, truth.partitions) == []

    def test_triage_says_what_is_left_once_the_broker_to_start_is_gone(self, found: Found) -> None:
        offline = [
            partition for partition in found.lab.truth.partitions if partition.expectation.verdict
        ]
        assert differences_without(found.without, offline) == []

    def test_nothing_was_changed(self, found: Found) -> None:
        assert found.behind.changes == []


@contextmanager
def found_on(folder: Path, case: type[Alone]) -> Iterator[Found]:
    """A lab after the scenario of *case*, behind proxies, with what triage says of it."""
    with (
        damaged(folder, case.SCENARIO) as lab,
        watched(lab.cluster) as behind,
        behind.connection.reading() as client,
    ):
        # Triage twice, the second time without the brokers that the truth says to start.
        yielded = tuple(triage(client, case.DURATION_SECONDS))
        gone = {partition.expectation.broker for partition in lab.truth.partitions} - {None}
        awaited = [
            number
            for number in gone
            if number is not None and not lab.cluster.broker(number).running
        ]
        *_, without = triage(client, case.DURATION_SECONDS, gone=awaited)
        yield Found(lab, behind, client, yielded, without)
