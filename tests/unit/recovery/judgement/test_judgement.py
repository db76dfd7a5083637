"""What is concluded from an incident: one word, one action, who should lead, at which price.

``incidents.txt`` has two lines of each incident: what is known of it, as
tests/unit/recovery/notation.py reads it, and then what follows. ``whole`` are brokers whose start
brings the partition back, ``more`` those that may hold more, ``hazard`` those that a reorder would
elect instead, ``next`` whom the controller elects by itself, ``cuts`` what a return cuts from
others. ``automatable`` needs no decision beside the consent, and ``alone`` a consent of its own.
``headlines.txt`` has many incidents at once. The sentences are in the golden file, once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from breakglass.services.model import (
    Denied,
    EpochHistory,
    LogContents,
    LogDir,
    PartitionEvidence,
    ReplicaLog,
    Unknown,
)
from breakglass.services.recovery.judgement.assessment import Assessment, Verb, Verdict, own_consent
from breakglass.services.recovery.judgement.inputs import abandoned, proof_of_no_more, remembering
from breakglass.services.recovery.judgement.ranking import ReplicaStanding, eligibility
from breakglass.services.recovery.judgement.succession import Circumstances
from breakglass.services.recovery.judgement.summary import Summary, summarize
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.rescue.spans import Span, at_risk_of_return, shares_of
from breakglass.services.snapshot import Quorum
from tests.unit.recovery.notation import NO_QUORUM, QUORUMS, ROLES, Incident, blocks, incident
from tests.unit.recovery.partitions import partitions
from tests.unit.recovery.replicas import ANOTHER_TOPIC_ID, HEALTHY, log, offline, silent

VERDICTS = blocks("incidents.txt")


def conclusion(one: Incident) -> str:
    """What is concluded, without its sentences."""
    found, cut = one.judged, one.judged.cut_by_return
    facts = [
        f"{found.verdict} {found.action}",
        listed("whole", found.restorers),
        listed("more", found.unheard),
        listed("hazard", found.hazards),
        listed("next", [found.forecast.broker]),
        f"best b{found.best}" if found.designee is None and found.best is not None else "",
        f"b{found.designee} loses {figure(found.loss.total, '?')}" if found.loss else "",
        f"cuts {figure(cut.records, f'>= {cut.at_least}')}{listed(' of', cut.holders)}"
        if cut
        else "",
        "automatable" if found.automatable else "",
        "alone" if alone(one) else "",
    ]
    return "; ".join(filter(None, facts))


def listed(word: str, brokers: Sequence[int | None]) -> str:
    named = [f"b{broker}" for broker in brokers if broker is not None]
    return " ".join([word, *named]) if named else ""


def figure(number: int | Unknown, unknown: str) -> str:
    return unknown if isinstance(number, Unknown) else str(number)


def alone(one: Incident) -> str:
    """Why the best replica is agreed to by a consent of its own."""
    best = one.judged.best
    return "" if best is None else own_consent(one.evidence, best, one.circumstances.ruled_out)


def judged(*replicas: ReplicaLog) -> Assessment:
    return assess(offline(*replicas, floor=0), HEALTHY)


@pytest.mark.parametrize(("given", "expected"), VERDICTS.values(), ids=VERDICTS)
def test_each_incident_has_one_word_one_action_and_a_price(given: str, expected: str) -> None:
    assert conclusion(incident(given)) == expected


def read_to(contents: LogContents | Unknown) -> Incident:
    return Incident(offline(replace(log(2, (0, 120)), contents=contents)), HEALTHY)


def moved(behind: int | Unknown) -> Incident:
    """b1 has the copy of an unfinished move beside its log, or alone if *behind* is Unknown."""
    copy = LogDir("/two", online=True, size=1_234, future=True, behind=behind)
    if isinstance(behind, Unknown):
        one = replace(silent(1, fenced=False, log_dir_online=False), only_copy=copy)
    else:
        one = replace(log(1, (0, 75)), log_dir=LogDir("/one", online=True, size=7, copy=copy))
    return Incident(offline(one, log(2, (0, 100))), HEALTHY)


UNUSUAL = {
    "contents that were read back to an offset": read_to(LogContents(80, 120, stopped="so far")),
    "contents of which a part was read": read_to(LogContents(80, 90, stopped="b2 throttles us")),
    "contents that may not be read": read_to(Denied("READ is missing", "READ on topic orders")),
    "the copy of a move is ahead of its log": moved(-25),
    "the copy of a move is ahead by one": moved(-1),
    "the copy of a move is all that is left": moved(Unknown("no log")),
}


def sentences(one: Incident) -> Iterator[str]:
    """What is said of an incident: reasons, what else bars an election in bulk, own consent."""
    found = one.judged
    yield from (f"  - {reason}" for reason in found.reasons)
    yield from (f"  ! {barrier}" for barrier in found.barriers if barrier not in found.reasons)
    if alone(one):
        yield f"  alone: {alone(one)}"


def summed(incidents: Sequence[str]) -> Summary:
    found = [incident(text) for text in incidents]
    quorum = found[0].circumstances.quorum if found else HEALTHY.quorum
    return summarize((one.judged for one in found), quorum)


def test_what_an_operator_reads(snapshot: SnapshotAssertion) -> None:
    """Of each incident, and of many at once."""
    usual = {name: incident(text) for name, (text, _) in VERDICTS.items()}
    told = []
    for name, one in (usual | UNUSUAL).items():
        told += [name, *sentences(one)]
    for name, texts in blocks("headlines.txt").items():
        found = summed(texts)
        told += [name, *(f"  {text}" for text in (found.alarm, found.headline) if text)]
    for name, quorum in QUORUMS.items():
        told += [f"nothing is offline, {name}", f"  {summarize([], quorum).headline}"]
    assert "\n".join(told) == snapshot


def test_r27_a_start_has_the_price_of_the_partitions_that_others_lead() -> None:
    waiting = incident("b1 last down, b2 0:100").judged
    alone = summarize([waiting], HEALTHY.quorum, lambda _: 0).headline
    follows = summarize([waiting], HEALTHY.quorum, lambda broker: 12 * (broker == 1)).headline
    assert follows.startswith(alone.removesuffix("."))
    assert "12 led partitions" in follows


def test_r20_nothing_offline_is_doubted_only_where_brokers_may_be_cut_off() -> None:
    certain = summarize([], HEALTHY.quorum)
    assert summarize([], Denied("not allowed", "DESCRIBE on CLUSTER")) == certain
    assert all(summarize([], quorum) != certain for quorum in QUORUMS.values())


@pytest.mark.parametrize("behind", [-25, -1, 0, 9])
def test_r21_the_copy_of_a_move_is_remarked_where_it_is_ahead_of_the_log(behind: int) -> None:
    remarks = [reason for reason in moved(behind).judged.reasons if "/two" in reason]
    assert len(remarks) == (behind < 0)


@pytest.mark.parametrize(
    ("before", "candidate", "proved"),
    [
        pytest.param("b2 down 0:10", "b3 0:10", True, id="the same log"),
        pytest.param("b2 down 0:5", "b3 0:10", True, id="a prefix"),
        pytest.param("b2 down told", "b3 0:10", True, id="no records"),
        pytest.param("b2 down 0:11", "b3 0:10", False, id="one more"),
        pytest.param("b2 down 0:5 1:6", "b3 0:10", False, id="another lineage"),
        pytest.param("b2 down 0:10", "b3 0:10 from4", False, id="an older head"),
        pytest.param("b2 down 0:10 from4", "b3 0:10 from4", True, id="the same head"),
        pytest.param("b2 down", "b3 0:10", False, id="never heard"),
        pytest.param("b2 down 0:50", "b3 0:120 whole", True, id="a prefix of a whole log"),
        pytest.param("b2 down 0:50", "b3 0:120 corrupt40", False, id="past a corrupt batch"),
    ],
)
def test_a_log_that_was_reported_before_proves_no_more_when_it_is_a_prefix(
    before: str, candidate: str, proved: bool
) -> None:
    one = incident(f"{before}, {candidate} | floor 0")
    silent_log, best = one.evidence.replicas
    assert bool(proof_of_no_more(one.evidence, silent_log, best)) is proved
    assert abandoned(one.evidence, 3) == (() if proved else (2,))
    assert bool(one.judged.unheard) is not proved
    assert one.judged.heard == (1, 2), "it was not heard now"


def test_a_log_reported_by_a_broker_that_knew_another_epoch_proves_nothing() -> None:
    cut_off = replace(log(2, (0, 5)), leader_epoch=8)
    assert judged(silent(2, last_heard=cut_off), log(3, (0, 10))).unheard == (2,)


class TestRemembering:
    """What was reported earlier counts for as long as no replica has led since."""

    THEN = incident("b2 0:5, b3 0:10").evidence
    NOW = incident("b2 down, b3 0:10").evidence

    def test_it_is_handed_on_while_the_partition_is_as_it_was(self) -> None:
        once = remembering(self.THEN, self.NOW)
        assert once.replicas[0].last_heard == self.THEN.replicas[0]
        assert isinstance(once.replicas[0].log_end, Unknown), "it is no reading of now"
        assert remembering(once, self.NOW).replicas == once.replicas

    @pytest.mark.parametrize(
        "changed", [{"leader_epoch": 10}, {"topic_id": ANOTHER_TOPIC_ID}, {"leader": 3}]
    )
    def test_it_is_forgotten_once_a_replica_may_have_led(self, changed: dict[str, Any]) -> None:
        now = replace(self.NOW, state=replace(self.NOW.state, **changed))
        assert remembering(self.THEN, now) is now


OLD_TAIL = log(2, (0, 100), (1, 150), hw=100)
"""b2 led epoch 1 alone; its records from 100 on may be on no other replica."""
BACK = log(1, (0, 100), (4, 130))


@pytest.mark.parametrize(("epoch", "cut"), [(5, 50), (4, 0)], ids=["since", "before"])
def test_a_log_that_was_reported_since_the_leader_was_lost_gives_a_lower_bound(
    epoch: int, cut: int
) -> None:
    returning = silent(1, role=ROLES["last"], last_heard=replace(BACK, leader_epoch=epoch))
    found = assess(offline(returning, OLD_TAIL, leader_epoch=5), HEALTHY).cut_by_return
    assert found is not None
    assert (found.holders, found.at_least) == ((2,), cut)
    assert isinstance(found.records, Unknown)


@pytest.mark.parametrize(
    ("given", "saved"),
    [
        pytest.param(
            "b1 last down, b2 0:100 1:150 hw100, b3 0:100 4:130 | epoch 5",
            {2: (Span(0, 150),), 3: (Span(100, 130),)},
            id="of a log that was never reported all, each record once",
        ),
        pytest.param(
            "b1 last down 0:100 9:130, b2 0:100 1:150 hw100 | epoch 9",
            {2: (Span(0, 150),)},
            id="of a log that was reported before its broker went down all, too",
        ),
        pytest.param(
            "b1 down, b3 last down, b2 0:100 1:150 hw100 | epoch 5",
            None,
            id="nothing for a broker that does not lead on its return",
        ),
    ],
)
def test_r26_the_rescue_takes_all_that_is_not_proved_to_be_there(
    given: str, saved: dict[int, tuple[Span, ...]] | None
) -> None:
    risk = at_risk_of_return(incident(given).evidence, 1)
    shares = None if risk is None else shares_of(risk)
    assert not isinstance(shares, Unknown)
    assert saved == (shares and {share.replica.broker: share.spans for share in shares})


@given(partitions(), st.booleans(), st.sampled_from([HEALTHY.quorum, NO_QUORUM, Unknown("?")]))
def test_what_may_be_automated_is_always_sound(
    evidence: PartitionEvidence, deadline_passed: bool, quorum: Quorum | Unknown
) -> None:
    found = assess(evidence, Circumstances(quorum, deadline_passed=deadline_passed))
    if found.action.verb is Verb.ELECT:
        assert found.action.broker == found.designee
    if found.designee is not None:
        assert eligibility(evidence, found.designee).recommendable
        assert found.loss is not None
        assert found.loss.candidate == found.designee
    if found.automatable:
        assert found.designee is not None
        assert eligibility(evidence, found.designee).standing is ReplicaStanding.ELIGIBLE
        assert found.hazards == ()
        assert found.verdict not in (Verdict.STUCK, Verdict.BOMB, Verdict.FORK)
        assert found.loss is not None
        assert found.loss.committed_elsewhere is False


@given(partitions())
def test_a_judgement_is_the_same_whatever_the_order_of_replicas(
    evidence: PartitionEvidence,
) -> None:
    assume(obeys_log_matching(evidence.replicas))
    turned = replace(evidence, replicas=evidence.replicas[::-1])
    one, other = assess(evidence, HEALTHY), assess(turned, HEALTHY)
    assert (one.verdict, one.action, one.designee) == (other.verdict, other.action, other.designee)
    assert loses(one) == loses(other)


def obeys_log_matching(replicas: Sequence[ReplicaLog]) -> bool:
    """An epoch has one leader, so it begins at one offset; a log that begins later cuts it."""
    held = [
        (epoch.epoch, epoch.start, epoch.start == replica.log_start)
        for replica in replicas
        if isinstance(replica.epochs, EpochHistory)
        for epoch in replica.epochs.ranges
    ]
    begins = {epoch: start for epoch, start, cut in held if not cut}
    return all(
        start >= begins.get(epoch, start) if cut else start == begins[epoch]
        for epoch, start, cut in held
    )


def loses(found: Assessment) -> list[object]:
    """The loss, with every Unknown alike: of several reasons any may be given."""
    if found.loss is None:
        return []
    records = found.loss.records
    figures = records.total, records.committed, records.unproven
    return ["?" if isinstance(number, Unknown) else number for number in figures]


@given(evidence=partitions())
def test_r03_no_sentence_suggests_to_change_the_min_isr(evidence: PartitionEvidence) -> None:
    """It would make the controller forget ELR and last leader, and so an intact one."""
    found = assess(evidence, HEALTHY)
    said = (str(found.action), found.forecast.reason, *found.reasons, *found.barriers)
    assert [sentence for sentence in said if "min.insync" in sentence] == []
