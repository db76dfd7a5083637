"""What is judged at once is judged as if everything had been asked, reasons included."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.model import (
    Forfeited,
    LogContents,
    PartitionEvidence,
    Reassignment,
    ReplicaLog,
    Role,
    Unknown,
)
from breakglass.services.recovery.evidence.assemble import assemble
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.services.recovery.judgement.plain import assess_plainly
from breakglass.services.recovery.judgement.succession import Circumstances
from breakglass.services.recovery.judgement.verdict import assess, assess_in_full
from tests.kit.large_cluster import generated
from tests.unit.recovery.notation import NO_QUORUM, incident
from tests.unit.recovery.random_histories import (
    Life,
    lives_with_brokers_gone,
    offline_lives,
    silences,
)
from tests.unit.recovery.replicas import HEALTHY, PLAIN, log, offline, silent

BROKERS = (1, 2, 3, 4)
WITHOUT_QUORUM = replace(HEALTHY, quorum=NO_QUORUM)
EARLY = replace(HEALTHY, deadline_passed=False)
UNASKED = Circumstances()


def plainly(evidence: PartitionEvidence, circumstances: Circumstances = HEALTHY) -> bool:
    """Whether *evidence* is judged at once."""
    return assess_plainly(evidence, circumstances, lambda *_: ()) is not None


def judged_alike(evidence: PartitionEvidence, circumstances: Circumstances = HEALTHY) -> None:
    found, full = assess(evidence, circumstances), assess_in_full(evidence, circumstances)
    assert found == full
    assert found.reasons == full.reasons
    assert found.barred == full.barred


def mostly(usual: bool, *others: bool | Unknown) -> st.SearchStrategy[bool | Unknown]:
    values: list[bool | Unknown] = [*[usual] * 6, *others]
    return st.sampled_from(values)


@st.composite
def read_logs(draw: st.DrawFn, broker: int) -> ReplicaLog:
    """Plain in most fields, unusual in a few."""
    start = draw(st.sampled_from((0, 0, 0, 2, 5)))
    epochs, end = [], start
    for epoch in sorted(draw(st.sets(st.sampled_from((1, 4, 6, 8)), max_size=3))):
        end += draw(st.integers(1, 4))
        epochs.append((epoch, end))
    mark = draw(st.one_of(st.integers(0, end + 1), st.just(end), st.just(Unknown("mark unread"))))
    role = draw(st.sampled_from((*[Role.STALE] * 6, Role.ELR)))
    fenced = draw(mostly(False, True, Unknown("not listed")))
    made = log(broker, *epochs, start=start, hw=mark, role=role, fenced=fenced, end=end)
    if draw(st.integers(0, 7)) == 0:
        made = replace(made, epochs=Unknown("READ on the topic is missing"))
    if draw(st.integers(0, 5)) == 0:
        corrupt_at = draw(st.sampled_from((None, max(start, end - 1))))
        made = replace(
            made, contents=LogContents(start, end, corrupt_at, "torn" * bool(corrupt_at))
        )
    return made


@st.composite
def silent_logs(draw: st.DrawFn, broker: int) -> ReplicaLog:
    role = draw(st.sampled_from((*[Role.STALE] * 3, Role.ISR, Role.ELR, Role.LAST_KNOWN_ELR)))
    fenced = draw(mostly(True, False, Unknown("not listed")))
    online = draw(st.sampled_from((*[None] * 6, True, False)))
    heard = draw(st.one_of(*[st.none()] * 5, read_logs(broker)))
    made = silent(broker, role=role, fenced=fenced, log_dir_online=online, last_heard=heard)
    made = replace(made, reachable=draw(st.booleans()))
    if draw(st.integers(0, 7)) == 0:
        made = replace(made, log_end=Forfeited("b9 came back EMPTY"))
    return made


@st.composite
def evidences(draw: st.DrawFn) -> PartitionEvidence:
    count = draw(st.sampled_from((1, 2, 2, 3, 3, 4)))
    brokers = draw(st.permutations(BROKERS))[:count]
    replicas = [
        draw(st.one_of(read_logs(broker), read_logs(broker), silent_logs(broker)))
        for broker in brokers
    ]
    unknown = Unknown("the topic's settings were not read")
    settings = replace(
        PLAIN,
        unclean_election=draw(mostly(False, True, unknown)),
        compacted=draw(mostly(False, True, unknown)),
        tiered=draw(mostly(False, True, unknown)),
    )
    made = offline(
        *replicas,
        leader_epoch=draw(st.sampled_from((5, 9))),
        settings=settings,
        floor=draw(st.one_of(st.none(), st.integers(0, 20))),
        reassignment=draw(st.sampled_from((*[None] * 8, Reassignment((7,), ()), unknown))),
        unregistered=draw(st.sampled_from((*[()] * 8, (brokers[0],)))),
    )
    if draw(st.integers(0, 9)) == 0:
        made = replace(made, replicas=tuple(reversed(made.replicas)))
    return made


CIRCUMSTANCES = st.sampled_from((*[HEALTHY] * 6, WITHOUT_QUORUM, EARLY, UNASKED)).flatmap(
    lambda found: st.sets(st.sampled_from(BROKERS), max_size=2).map(
        lambda gone: replace(found, ruled_out=dict.fromkeys(sorted(gone), "declared gone"))
    )
)


@given(evidence=evidences(), circumstances=CIRCUMSTANCES)
def test_any_partition_is_judged_alike(
    evidence: PartitionEvidence, circumstances: Circumstances
) -> None:
    judged_alike(evidence, circumstances)


@given(life=offline_lives(), unheard=silences(), floor=st.integers(0, 20))
def test_partitions_that_lived_are_judged_alike(
    life: Life, unheard: frozenset[int], floor: int
) -> None:
    judged_alike(life.evidence(unheard, floor))


@given(found=lives_with_brokers_gone())
def test_they_are_judged_alike_with_brokers_declared_gone(
    found: tuple[Life, frozenset[int]],
) -> None:
    life, gone = found
    circumstances = replace(HEALTHY, ruled_out=dict.fromkeys(gone, "declared gone"))
    judged_alike(life.evidence(), circumstances)


def test_a_large_cluster_is_judged_at_once_and_alike() -> None:
    cluster = generated(1000, 500)
    snapshot = cluster.snapshot
    evidence = assemble(
        snapshot.offline,
        snapshot.description,
        snapshot.settings,
        cluster.answers,
        cluster.silent,
        {},
    )
    circumstances = Circumstances(snapshot.quorum)
    assert all(plainly(partition, circumstances) for partition in evidence)
    assert {assess(partition, circumstances).verdict for partition in evidence} == {
        Verdict.WAIT,
        Verdict.FORK,
        Verdict.LOSS,
        Verdict.SAFE,
    }
    for partition in evidence:
        judged_alike(partition, circumstances)


WAITING = "b1 elr down, b2 0:10 4:15, b3 0:10 6:12"
"""Plain: b1 would bring it back whole."""


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(WAITING, id="a member of the ELR is down"),
        pytest.param("b1 down, b2 0:10 4:15, b3 0:10 6:12", id="a stale replica is down"),
        pytest.param("b1 isr down, b2 0:10 4:15", id="one replica is heard"),
        pytest.param("b1 isr down, b2 4:9 | epoch 5", id="it followed"),
        pytest.param(f"{WAITING}, b4 0:10 6:12", id="four replicas"),
        pytest.param("b2 0:10 4:15, b3 0:10 6:12", id="both are heard"),
        pytest.param("b2 0:10 | floor 30", id="more was committed"),
        pytest.param(f"{WAITING} | gone 4", id="another broker was declared gone"),
    ],
)
def test_what_is_plain_is_judged_at_once_and_alike(given: str) -> None:
    found = incident(given)
    assert plainly(found.evidence, found.circumstances)
    judged_alike(found.evidence, found.circumstances)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("b1 down, b2 down", id="no replica is heard"),
        pytest.param(f"{WAITING} | unregistered 1", id="a broker is not registered"),
        pytest.param(f"{WAITING} | moving", id="it is moved"),
        pytest.param("b1 hung, b2 0:10 4:15, b3 0:10 6:12", id="a live broker is silent"),
        pytest.param("b1 down 0:10, b2 0:10 4:15, b3 0:10 6:12", id="it was heard before"),
        pytest.param("b1 down, b2 0:10 fenced", id="a fenced one is heard"),
        pytest.param("b1 down, b2 elr 0:10", id="an heir is live"),
        pytest.param("b1 down, b2 empty", id="a log is empty"),
        pytest.param("b2 0:9 corrupt5", id="corrupt"),
        pytest.param("b2 0:9 from5, b3 0:9", id="a head is lost"),
        pytest.param("b2 4:9, b3 1:9", id="no epoch in common"),
        pytest.param(f"{WAITING} | no quorum", id="there is no quorum"),
        pytest.param(f"{WAITING} | early", id="brokers may still answer"),
        pytest.param(f"{WAITING} | gone 1", id="its broker was declared gone"),
    ],
)
def test_what_is_unusual_is_judged_in_full(given: str) -> None:
    found = incident(given)
    assert not plainly(found.evidence, found.circumstances)
    judged_alike(found.evidence, found.circumstances)
