"""What is judged at once is judged as if everything had been asked, reasons included."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakglass.services.model import PartitionEvidence
from breakglass.services.recovery.evidence.gather import assemble
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.services.recovery.judgement.succession import Circumstances
from breakglass.services.recovery.judgement.verdict import assess, assess_in_full, assess_plainly
from tests.kit.extent import examples
from tests.kit.large_cluster import generated
from tests.unit.recovery.notation import NO_QUORUM, blocks, incident
from tests.unit.recovery.partitions import partitions
from tests.unit.recovery.replicas import HEALTHY

INCIDENTS = blocks("incidents.txt")
BROKERS = (1, 2, 3, 4)
WITHOUT_QUORUM = replace(HEALTHY, quorum=NO_QUORUM)
EARLY = replace(HEALTHY, deadline_passed=False)


def plainly(evidence: PartitionEvidence, circumstances: Circumstances = HEALTHY) -> bool:
    """Whether *evidence* is judged at once."""
    return assess_plainly(evidence, circumstances, lambda *_: ()) is not None


def judged_alike(evidence: PartitionEvidence, circumstances: Circumstances = HEALTHY) -> None:
    found, full = assess(evidence, circumstances), assess_in_full(evidence, circumstances)
    assert found == full
    assert found.reasons == full.reasons
    assert found.barred == full.barred


CIRCUMSTANCES = st.sampled_from((*[HEALTHY] * 6, WITHOUT_QUORUM, EARLY, Circumstances())).flatmap(
    lambda found: st.sets(st.sampled_from(BROKERS), max_size=2).map(
        lambda gone: replace(found, ruled_out=dict.fromkeys(sorted(gone), "declared gone"))
    )
)


@settings(max_examples=examples(300))
@given(evidence=partitions(), circumstances=CIRCUMSTANCES)
def test_any_partition_is_judged_alike(
    evidence: PartitionEvidence, circumstances: Circumstances
) -> None:
    judged_alike(evidence, circumstances)


@pytest.mark.parametrize("given", [rows[0] for rows in INCIDENTS.values()], ids=INCIDENTS)
def test_every_incident_that_is_written_down_is_judged_alike(given: str) -> None:
    found = incident(given)
    judged_alike(found.evidence, found.circumstances)


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
