"""Incidents from seeds: the same seed, the same incident, and one that a lab can play."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.lab.incidents.generate import generate
from breakglass.services.lab.incidents.incident import (
    Happening,
    LabIncident,
    Way,
    from_json,
    to_json,
)
from tests.campaign.second_round import FIRST_ROUND, of_campaign

SEEDS = st.integers(0, 10**9)


@given(SEEDS)
def test_a_seed_says_it_all_and_the_cluster_is_as_asked_for(seed: int) -> None:
    incident = generate(seed)
    assert incident == generate(seed) == from_json(to_json(incident))
    assert 3 <= incident.brokers <= 6
    assert incident.controllers in (1, 3)
    assert incident.way is not Way.KAFKA
    for topic in incident.topics:
        for row in topic.assignments:
            assert len(set(row)) == len(row) <= 4
            assert set(row) <= set(range(1, incident.brokers + 1))
            assert topic.min_isr <= len(row)


@given(SEEDS)
def test_a_broker_lives_at_every_step_and_only_others_can_be_cured_or_return(seed: int) -> None:
    incident = generate(seed)
    *before, alive = alive_after_each_step(incident)
    assert all((*before, alive))
    out = set(range(1, incident.brokers + 1)) - alive
    assert set(incident.curable) <= out
    assert incident.returning is None or incident.returning in out - set(incident.curable)


OUT = (
    *(Happening.KILL, Happening.STOP, Happening.STRAND),
    *(Happening.LAST, Happening.HANG, Happening.CUT),
)


def alive_after_each_step(incident: LabIncident) -> list[set[int]]:
    """Brokers that run, answer and are not cut off, by the steps alone."""
    alive = set(range(1, incident.brokers + 1))
    seen = []
    for step in incident.steps:
        if step.act in OUT:
            assert set(step.brokers) <= alive, f"{step} of a broker that does not run"
            alive = (alive - set(step.brokers)) | set(step.back)
        elif step.act in (Happening.RETURN, Happening.RETURN_EMPTY):
            assert not set(step.brokers) & alive, f"{step} of a broker that runs"
            alive |= set(step.brokers)
        seen.append(set(alive))
    return seen


def test_everything_happens() -> None:
    seeds = range(FIRST_ROUND + 1, FIRST_ROUND + 301)
    found = Counter(step.act for seed in seeds for step in of_campaign(seed).steps)
    assert [act for act in Happening if found[act] <= 5] == []


@given(SEEDS)
def test_a_later_seed_has_what_strangers_found_and_is_the_same_each_time(seed: int) -> None:
    incident = of_campaign(seed)
    assert incident == of_campaign(seed) == from_json(to_json(incident))
    if seed <= FIRST_ROUND:
        assert incident == generate(seed)
    assert not incident.first or set(incident.first) < {topic.name for topic in incident.topics}
    assert incident.returning not in incident.curable
