"""Incidents of a campaign: those of the generator, and from seed 1,001 on more of each.

More is what strangers found false claims by: power cuts, an earlier recovery whose journals are
there or on another machine, unregistered brokers, partitions never written, one address.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from breakglass.services.lab.incidents.generate import MOST_RECORDS, generate
from breakglass.services.lab.incidents.incident import Happening, LabIncident, Step

FIRST_ROUND = 1000
"""Seeds up to here are as they were played first."""
LOST = (Happening.KILL, Happening.STOP, Happening.STRAND, Happening.LAST)


def of_campaign(seed: int) -> LabIncident:
    """The incident of *seed*."""
    incident = generate(seed)
    return incident if seed <= FIRST_ROUND else _with_more(incident)


def left_by(incident: LabIncident) -> tuple[list[int], list[int]]:
    """The brokers that are well after all steps, and those that are down."""
    alive, down = set(range(1, incident.brokers + 1)), set[int]()
    for step in incident.steps:
        brokers = set(step.brokers)
        if step.act in LOST:
            alive, down = (alive - brokers) | {*step.back}, (down | brokers) - {*step.back}
        elif step.act in (Happening.RETURN, Happening.RETURN_EMPTY):
            alive, down = alive | brokers, down - brokers
        elif step.act in (Happening.HANG, Happening.CUT):
            alive -= brokers
    return sorted(alive), sorted(down)


def _with_more(incident: LabIncident) -> LabIncident:
    """*incident*, and more by another stream of random numbers, so that what it has stays."""
    random = Random(f"breakglass campaign {incident.seed} second round")
    alive, down = left_by(incident)
    steps = list(incident.steps)
    more: dict[str, Any] = {}
    if down and random.random() < 0.5:
        steps.append(Step(Happening.POWER, (random.choice(down),), count=random.randint(1, 3)))
    lost = [broker for broker in down if broker not in incident.curable]
    if lost and random.random() < 0.1:
        steps.append(Step(Happening.UNREGISTER, (random.choice(lost),)))
    topics = list(incident.topics)
    if random.random() < 0.4:
        plan = topics[0]
        row = tuple(random.sample(range(1, incident.brokers + 1), len(plan.assignments[0])))
        topics[0] = replace(plan, assignments=(*plan.assignments, row), never=1)
    if down and len(topics) > 1 and random.random() < 0.7:
        names = [topic.name for topic in topics]
        more["first"] = tuple(random.sample(names, random.randint(1, len(names) - 1)))
        count = random.randint(1, MOST_RECORDS)
        more["again"] = (Step(Happening.WRITE, count=count, acks="1"),)
        if len(alive) > 1 and random.random() < 0.5:
            more["again"] += (Step(Happening.KILL, (random.choice(sorted(alive)),)),)
        more["elsewhere"] = random.random() < 0.6
        more |= {"curable": tuple(down), "returning": None}
    elif lost and random.random() < 0.3:
        more["returning"] = random.choice(lost)
    more["midway"] = random.random() < 0.5
    more["group_epochs"] = incident.seed % 3 > 0
    if not any(step.act is Happening.COMMIT for step in steps):
        steps.insert(random.randint(1, len(steps)), Step(Happening.COMMIT))
    more["one_address"] = random.random() < 0.3
    labels = {"never written"} if topics[0].never else set[str]()
    labels |= {step.act.value for step in steps}
    labels |= {name.replace("_", " ") for name in ("one_address", "elsewhere") if more.get(name)}
    labels |= {"recovered before"} if more.get("first") else set()
    labels -= {act.value for act in (Happening.WRITE, Happening.LAST)}
    together = tuple(sorted({*incident.labels, *labels}))
    return replace(incident, steps=tuple(steps), topics=tuple(topics), labels=together, **more)
