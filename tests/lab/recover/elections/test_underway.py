"""Controllers that are frozen while elections are held, and go on a little later."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from breakglass.services.model import PartitionEvidence, TopicPartition
from breakglass.services.recovery.execution.run import Recovery
from breakglass.services.recovery.execution.steps import ExecutionLimits
from breakglass.services.recovery.execution.target import RecoveryResult, target_of
from tests.kit.waiting import DEADLINE_SECONDS
from tests.lab.recover.elections.test_elections import around_election, session
from tests.lab.scenarios.damaged import Damaged

SOON = 2.0
"""An answer that frozen controllers do not give."""


def test_r20_an_election_under_way_is_waited_for_and_the_others_go_on(
    lab: Damaged,
    evidence: dict[TopicPartition, PartitionEvidence],
    unused: Iterator[TopicPartition],
    tmp_path: Path,
) -> None:
    """Its answer is lost; the controllers go on while it is looked for."""
    wanted = [target_of(evidence[partition], 1) for partition in islice(unused, 12)]
    frozen: list[bool] = []

    def freeze() -> None:
        if not frozen:
            for controller in lab.cluster.controllers:
                controller.pause()
        frozen.append(True)

    def thaw() -> bool:
        """Asked by the product: whether it is to stop."""
        if frozen:
            for controller in lab.cluster.controllers:
                controller.resume()
        return False

    limits = ExecutionLimits(election=SOON, confirmation=SOON, underway=DEADLINE_SECONDS)
    with session(lab, tmp_path) as held:
        route = around_election(before=freeze)
        recovery = Recovery(held.elect, held.journal, route, limits=limits, stop=thaw)
        outcomes = [outcome for batch in recovery.run(wanted) for outcome in batch]
    assert {outcome.result for outcome in outcomes} == {RecoveryResult.ELECTED}
    assert {lab.state(target.partition).leader for target in wanted} == {1}
