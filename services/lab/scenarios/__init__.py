"""The named failures, and the one place that lists them."""

from __future__ import annotations

from collections.abc import Sequence

from breakglass.services.errors import LabError
from breakglass.services.lab.scenarios import (
    all_replicas_gone,
    bad_unclean_before,
    compacted,
    controller_down,
    diverged,
    empty_replica,
    failed_logdir,
    fenced_designee,
    hanging_transaction,
    hung_broker,
    hung_designee,
    many,
    min_isr,
    reassigning,
    replaced_disk,
    stale_replicas,
    unregistered_broker,
)
from breakglass.services.lab.scenarios.scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    stale_replicas.SCENARIO,
    diverged.SCENARIO,
    empty_replica.SCENARIO,
    replaced_disk.SCENARIO,
    replaced_disk.UNATTENDED,
    bad_unclean_before.SCENARIO,
    min_isr.SCENARIO,
    fenced_designee.SCENARIO,
    hung_broker.SCENARIO,
    hung_designee.SCENARIO,
    hanging_transaction.SCENARIO,
    reassigning.SCENARIO,
    unregistered_broker.SCENARIO,
    failed_logdir.SCENARIO,
    compacted.SCENARIO,
    controller_down.SCENARIO,
    all_replicas_gone.SCENARIO,
    many.SCENARIO,
)


def find_scenarios(names: Sequence[str]) -> tuple[Scenario, ...]:
    """The scenarios of these names, in the order given.

    Raises:
        LabError: there is none of that name.
    """
    known = {scenario.name: scenario for scenario in SCENARIOS}
    for name in names:
        if name not in known:
            raise LabError(f"There is no scenario {name}: choose of {', '.join(sorted(known))}.")
    return tuple(known[name] for name in names)
