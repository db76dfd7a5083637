"""No verdict, price, phrase, bound or journal line claims less than a count record by record.

The lives of `random_histories` say what every replica truly holds; the product is shown some of
it, with other replicas unread, gone, or remembered from an earlier reading.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from services.model import PartitionEvidence, Unknown
from services.recovery.guarded.priced import frozen, groups_of, planned
from services.recovery.judgement.assessment import Assessment, Verdict
from services.recovery.judgement.heard_before import remembering
from services.recovery.judgement.loss import loss_of
from services.recovery.judgement.verdict import assess
from tests.unit.recovery.random_histories import (
    BROKERS,
    MEANWHILE,
    Life,
    Record,
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
        return [one.broker for one in logs if isinstance(one.log_end, Unknown)]

    def cut_off(self, designee: int, *, read: bool) -> frozenset[Record]:
        """What electing *designee* cuts off readable logs, or off unread ones."""
        logs = [one for one in BROKERS if (one not in self.unread) is read]
        return frozenset().union(*(self.life.holds_beyond(one, designee) for one in logs))


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
    down = [one for one in BROKERS if not life.disks[one].up]
    gone = frozenset(draw(st.lists(st.sampled_from(down), unique=True)) if down else [])
    return claimed(life, gone, remembering(then, life.evidence(draw(silences()))))


many = settings(max_examples=600)
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
        cut = [one for one in claim.unread if claim.life.holds_beyond(one, designee)]
        assert set(cut) <= set(abandoned)
        assert line["unread_at_least"] == claim.found.unread.at_least


@given(read_once())
def test_r11_a_lower_bound_is_never_above_what_was_committed_and_cannot_be_read(
    claim: Claimed,
) -> None:
    at_least = claim.found.unread.at_least
    ends = [one.log_end for one in claim.evidence.replicas if isinstance(one.log_end, int)]
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


def test_the_model_makes_every_kind_of_claim() -> None:
    """Properties that no example meets prove nothing."""
    seen: set[Verdict | str] = set()

    @many
    @given(READ)
    def look(claim: Claimed) -> None:
        seen.add(claim.found.verdict)
        if any(one.last_heard for one in claim.evidence.replicas):
            seen.add("remembered")
            if claim.found.verdict is Verdict.SAFE and set(claim.unread) - claim.gone:
                seen.add("safe by a proof")
        if claim.found.verdict is Verdict.WAIT and claim.found.unheard:
            seen.add("unheard")

    look()
    kinds = {Verdict.WAIT, Verdict.SAFE, Verdict.LOSS, Verdict.STUCK}
    assert seen >= {*kinds, "remembered", "safe by a proof", "unheard"}
