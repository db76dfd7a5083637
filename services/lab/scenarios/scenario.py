"""What a scenario is: the lab it needs, and a script that parks at each act of damage.

A script is a generator. It makes its topics and writes its records itself, and yields the
`LabDamage` it wants done to the whole lab next. `play` does each act once for all scripts that play
together, so that several scenarios share one lab, one sequence of kills and their waiting time.
Scenarios can play together when they follow the same course: the same acts in the same order,
of which a script may skip any. What a script wrote before an act, its topics have when the
act is done, whichever scenario asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from breakglass.services.lab.truth import Expectation

if TYPE_CHECKING:
    from breakglass.services.lab.cluster import Cluster
    from breakglass.services.lab.scenarios.stage import Stage


@dataclass(frozen=True, slots=True)
class LabDamage:
    """One piece of damage to a lab, done when this returns: it waits until it is observed."""

    name: str
    do: Callable[[Cluster], None]


Script = Generator[LabDamage, None, Sequence[Expectation]]


@dataclass(frozen=True, slots=True)
class Shape:
    """The lab a scenario needs; several are merged into the larger one."""

    brokers: int = 3
    controllers: int = 1
    log_dirs: int = 1
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Kafka settings of every node."""
    prepare: Callable[[Cluster], None] | None = None
    """Called between planning and start: proxies and settings of single nodes."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named failure."""

    name: str
    summary: str
    """One line, for the list."""
    script: Callable[[Stage], Script]
    shape: Shape = field(default_factory=Shape)
    course: tuple[LabDamage, ...] = ()
    """The acts that the script may yield, in their order; none: it plays alone."""
    options: Mapping[str, str] = field(default_factory=dict)
    """What may be set, with the defaults."""


def alone(script: Callable[[Stage], Sequence[Expectation]]) -> Callable[[Stage], Script]:
    """A script that does its own damage from beginning to end, sharing the lab with no other."""

    def generator(stage: Stage) -> Script:
        yield from ()
        return script(stage)

    return generator
