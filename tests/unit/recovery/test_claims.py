"""No verdict, price, phrase, bound or journal line claims less than a count record by record.

The lives of `random_histories` say what every replica truly holds; the product is shown some of
it, with other replicas unread, gone, or remembered from an earlier reading.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from breakglass.services.model import PartitionEvidence, Unknown
from breakglass.services.recovery.execution.target import target_of
from breakglass.services.recovery.guarded.election_quote import (
    frozen,
    groups_of,
    planned,
    priced_as_judged,
)
from breakglass.services.recovery.judgement.assessment import Assessment, Verdict
from breakglass.services.recovery.judgement.heard_before import remembering
from breakglass.services.recovery.judgement.loss import loss_of
from breakglass.services.recovery.judgement.verdict import assess
from tests.unit.recovery.random_histories import (
    BROKERS,
    MEANWHILE,
    Life,
    Record,
    Step,
    live_through,
    lives_with_brokers_gone,
    offline_lives,
    silences,
)
from tests.unit.recovery.replicas import HEALTHY


@dataclass(frozen=True)
class Claimed:
    """What the product says of a life, and the truth beside it."""

    life: Life
    gone: frozenset[int]
    evidence: PartitionEvidence
    found: Assessment

    @property
    def unread(self) -> list[int]:
        logs = self.evidence.replicas
        return [log.broker for log in logs if isinstance(log.log_end, Unknown)]

    def cut_off(self, designee: int, *, read: bool) -> frozenset[Record]:
        """What electing *designee* cuts off readable logs, or off unread ones."""
        logs = [broker for broker in BROKERS if (broker not in self.unread) is read]
        return frozenset().union(*(self.life.holds_beyond(log, designee) for log in logs))


def claimed(life: Life, gone: frozenset[int], evidence: PartitionEvidence) -> Claimed:
    circumstances = replace(HEALTHY, ruled_out=dict.fromkeys(gone, "declared gone"))
    return Claimed(life, gone, evidence, assess(evidence, circumstances))


@st.composite
def read_once(draw: st.DrawFn) -> Claimed:
    """A life that is read for the first time, some of its brokers silent."""
    life, gone = draw(lives_with_brokers_gone())
    floor = draw(st.integers(0, life.ever_marked))
    return claimed(life, gone, life.evidence(draw(silences()), floor))


@st.composite
def read_twice(draw: st.DrawFn) -> Claimed:
    """A life that was read, lived on, and is read again with what is remembered of then."""
    life = draw(offline_lives())
    then = life.evidence(draw(silences()))
    live_through(life, draw(st.lists(MEANWHILE, max_size=6)))
    life.finish()
    if draw(st.booleans()):
        life.forget()
    down = [broker for broker in BROKERS if not life.disks[broker].up]
    gone = frozenset(draw(st.lists(st.sampled_from(down), unique=True)) if down else [])
    return claimed(life, gone, remembering(then, life.evidence(draw(silences()))))


many = settings(max_examples=200)
"""Few lives end in a claim that says much."""
READ = st.one_of(read_once(), read_twice())


@many
@given(READ)
def test_safe_cuts_no_record_off_any_replica_that_is_not_declared_gone(claim: Claimed) -> None:
    designee = claim.found.designee
    if claim.found.verdict is Verdict.SAFE:
        assert designee is not None
        for broker in set(BROKERS) - claim.gone:
            assert not claim.life.holds_beyond(broker, designee)


@many
@given(READ)
def test_no_price_is_below_what_is_cut_off_readable_logs(claim: Claimed) -> None:
    for designee in BROKERS:
        total = loss_of(claim.evidence, designee).total
        if isinstance(total, int):
            assert total >= len(claim.cut_off(designee, read=True))


@many
@given(READ)
def test_a_phrase_names_every_broker_whose_unread_log_is_cut(claim: Claimed) -> None:
    for designee in set(BROKERS) - set(claim.unread):
        (group,) = groups_of([frozen(claim.evidence, designee, claim.gone)])
        for broker in claim.unread:
            if claim.life.holds_beyond(broker, designee):
                assert f"b{broker}" in group.phrase.partition(" and abandon ")[2].split(", ")


@many
@given(READ)
def test_a_phrase_for_many_passes_over_nobody_who_holds_more(claim: Claimed) -> None:
    """Whoever is not declared gone, and may hold more, is agreed to on its own."""
    for designee in set(BROKERS) - set(claim.unread):
        stake = frozen(claim.evidence, designee, claim.gone).stake
        if not stake.why_alone:
            for broker in set(claim.unread) - claim.gone:
                assert not claim.life.holds_beyond(broker, designee)


@many
@given(READ)
def test_what_is_written_down_names_whom_the_election_abandons(claim: Claimed) -> None:
    for designee in set(BROKERS) - set(claim.unread):
        line = planned(frozen(claim.evidence, designee, claim.gone))
        abandoned = line["abandons"]
        assert isinstance(abandoned, tuple)
        cut = [number for number in claim.unread if claim.life.holds_beyond(number, designee)]
        assert set(cut) <= set(abandoned)
        assert line["unread_at_least"] == claim.found.unread.at_least


@many
@given(READ)
def test_a_price_is_the_same_whether_or_not_what_was_judged_is_worked_out_again(
    claim: Claimed,
) -> None:
    for designee in BROKERS:
        target = target_of(claim.evidence, designee)
        again = frozen(claim.evidence, designee, claim.found.gone)
        assert priced_as_judged(claim.found, target) == again


@given(read_once())
def test_r11_a_lower_bound_is_never_above_what_was_committed_and_cannot_be_read(
    claim: Claimed,
) -> None:
    at_least = claim.found.unread.at_least
    ends = [
        replica.log_end for replica in claim.evidence.replicas if isinstance(replica.log_end, int)
    ]
    committed = {at for _, at in claim.life.ever_committed if at >= max(ends, default=0)}
    assert isinstance(at_least, int)
    assert at_least <= len(committed)


@many
@given(READ)
def test_r09_no_wait_makes_an_election_automatic_that_cuts_committed_records(
    claim: Claimed,
) -> None:
    """A fork is decided by an operator, whoever else is to be started first."""
    if claim.found.verdict is Verdict.WAIT and claim.found.automatable:
        assert claim.found.loss is not None
        assert claim.found.loss.committed_elsewhere is False


@many
@given(READ)
def test_loss_and_safe_are_said_only_when_all_that_can_be_heard_was(claim: Claimed) -> None:
    designee = claim.found.designee
    if claim.found.verdict in (Verdict.SAFE, Verdict.LOSS):
        assert designee is not None
        for broker in set(claim.unread) - claim.gone:
            assert not claim.life.holds_beyond(broker, designee)


def life_of(*steps: Step) -> Life:
    """A life of these steps, offline in the end, its ISR and ELR forgotten."""
    life = Life()
    live_through(life, list(steps))
    life.finish()
    life.forget()
    return life


def test_a_replica_that_died_in_front_of_us_with_less_is_proved_to_hold_no_more() -> None:
    life = life_of(("write", 3), ("stop", 4), ("write", 2), ("stop", 3), ("start", 4))
    life.start(2)
    then = life.evidence()
    life.stop(4)
    (b4,) = [replica for replica in life.evidence().replicas if replica.broker == 4]
    assert isinstance(b4.log_end, Unknown)
    claim = claimed(life, frozenset({1, 3}), remembering(then, life.evidence()))
    assert (claim.found.verdict, claim.found.designee) == (Verdict.SAFE, 2)
    phrase = groups_of([frozen(claim.evidence, 2, claim.gone)])[0].phrase
    assert phrase == "orders-3 lose 0 and abandon b1, b3"
    unremembered = claimed(life, frozenset({1, 3}), life.evidence())
    assert (unremembered.found.verdict, str(unremembered.found.action)) == (
        Verdict.WAIT,
        "start b4",
    )


def test_what_was_told_before_somebody_led_again_proves_nothing() -> None:
    life = life_of(("write", 3), ("stop", 4), ("stop", 3))
    life.start(2)
    life.start(4)
    then = life.evidence()
    life.elect_uncleanly(4)
    life.append(5)
    life.finish()
    life.forget()
    claim = claimed(life, frozenset({1, 3}), remembering(then, life.evidence()))
    assert (claim.found.verdict, str(claim.found.action)) == (Verdict.WAIT, "start b4")


def test_what_a_leader_told_while_it_was_cut_off_proves_nothing() -> None:
    """It goes on taking records in the epoch in which it led, and nobody tells it otherwise."""
    life = Life()
    live_through(life, [("write", 3), ("stop", 2), ("stop", 3), ("stop", 4), ("cut_off", 1)])
    life.forget()
    life.start(2)
    then = life.evidence()
    told = then.replica(1)
    assert told is not None
    assert told.leader_epoch != then.state.leader_epoch
    life.append_while_cut_off(1, 4)
    claim = claimed(life, frozenset({3, 4}), remembering(then, life.evidence(frozenset({1}))))
    assert life.holds_beyond(1, 2)
    assert (claim.found.verdict, claim.found.unheard) == (Verdict.WAIT, (1,))
