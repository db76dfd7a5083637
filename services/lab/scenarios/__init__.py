"""The named failures, and the one place that lists them."""

from __future__ import annotations

from collections.abc import Sequence

from breakglass.services.errors import LabError
from breakglass.services.lab.scenarios import behind, quorum, unreachable
from breakglass.services.lab.scenarios.scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    behind.STALE_REPLICAS,
    behind.DIVERGED,
    behind.EMPTY_REPLICA,
    behind.REPLACED_DISK,
    behind.REPLACED_DISK_UNATTENDED,
    behind.BAD_UNCLEAN_BEFORE,
    behind.ONE_ALIVE,
    unreachable.FENCED_DESIGNEE,
    unreachable.HUNG_BROKER,
    unreachable.HUNG_DESIGNEE,
    behind.HANGING_TRANSACTION,
    unreachable.REASSIGNING,
    unreachable.UNREGISTERED_BROKER,
    unreachable.FAILED_LOG_DIR,
    behind.COMPACTED_LOG,
    unreachable.CONTROLLER_DOWN,
    unreachable.ALL_REPLICAS_GONE,
    behind.MANY,
    quorum.MAJORITY_LOST,
    quorum.LAGGING_COPY,
    quorum.CONTROLLERS_LOST,
    quorum.BLANK_MAJORITY,
    quorum.BROKER_AHEAD,
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
