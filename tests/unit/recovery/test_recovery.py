"""No verdict, price, phrase, bound or journal line claims less than a count record by record.

The lives of `random_histories` say what every replica truly holds, and which logs are damaged. The
product is shown some of it: other replicas are unread, gone, or remembered from an earlier
reading, and contents were read back to any offset, or not at all.

And twice the partitions are twice the work, from the brokers' answers to the ledger.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from breakglass.services.guard.journal import Journal
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.listing import forecast_of
from breakglass.services.incident.row import judged_rows
from breakglass.services.model import (
    CONTENTS_UNREAD,
    LogContents,
    PartitionEvidence,
    ReplicaLog,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.acts.elect import Elect, frozen_elections
from breakglass.services.recovery.evidence.gather import assemble
from breakglass.services.recovery.execution.target import target_of
from breakglass.services.recovery.guarded.subject import (
    ElectionSubject,
    Priced,
    frozen,
    groups_of,
    planned,
    priced_as_judged,
    subject_of,
)
from breakglass.services.recovery.judgement.assessment import Assessment, Verdict
from breakglass.services.recovery.judgement.inputs import remembering
from breakglass.services.recovery.judgement.loss import loss_of
from breakglass.services.recovery.judgement.succession import Circumstances
from breakglass.services.recovery.judgement.summary import summarize
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.ledger.assemble import gathered, ledger_of
from breakglass.services.recovery.plan.document import Plan
from breakglass.services.recovery.plan.draft import open_plan, save_plan
from breakglass.services.recovery.plan.edit import never
from breakglass.services.recovery.plan.make import consent_groups, make_plan, plan_rows, totals_of
from breakglass.services.recovery.timeline.account import account_of
from breakglass.services.words.figures import contents_text
from tests.kit.extent import examples
from tests.kit.large_cluster import LargeCluster, generated
from tests.kit.work import calls_of
from tests.unit.recovery.histories import Record
from tests.unit.recovery.random_histories import (
    BROKERS,
    MEANWHILE,
    Life,
    Step,
    live_through,
    lives_with_brokers_gone,
    offline_lives,
    silences,
)
from tests.unit.recovery.replicas import HEALTHY


@dataclass(frozen=True)
class Claim:
    """What the product says of a life, and the truth beside it."""

    life: Life
    gone: frozenset[int]
    evidence: PartitionEvidence
    damaged: Mapping[int, int] = field(default_factory=dict)
    """By broker, the first offset that cannot be read of it, whether it was noticed or not."""

    @cached_property
    def found(self) -> Assessment:
        ruled_out = dict.fromkeys(self.gone, "declared gone")
        return assess(self.evidence, replace(HEALTHY, ruled_out=ruled_out))

    @property
    def conclusion(self) -> tuple[Verdict, str]:
        return self.found.verdict, str(self.found.action)

    @property
    def unread(self) -> list[int]:
        logs = self.evidence.replicas
        return [log.broker for log in logs if isinstance(log.log_end, Unknown)]

    @property
    def heard(self) -> set[int]:
        return set(BROKERS) - set(self.unread)

    def priced(self, designee: int) -> Priced:
        return frozen(self.evidence, designee, self.gone)

    def phrase(self, designee: int) -> str:
        (group,) = groups_of([self.priced(designee)])
        return group.phrase

    def log(self, broker: int) -> ReplicaLog:
        found = self.evidence.replica(broker)
        assert found is not None
        return found

    def cut(self, broker: int, designee: int) -> frozenset[Record]:
        """What electing *designee* cuts off the log of *broker*."""
        return self.life.holds_beyond(broker, designee)

    def known_damage(self, broker: int) -> int | None:
        """The damage of *broker*'s log, if it lies where its contents were read."""
        at, contents = self.damaged.get(broker), self.log(broker).contents
        read = isinstance(contents, LogContents) and at is not None and contents.verified_from <= at
        return at if read else None

    def lost(self, designee: int) -> frozenset[Record]:
        """What a broker that was heard holds, and consumers of *designee* are known not to read."""
        limit = self.known_damage(designee)
        disks = self.life.disks
        held = frozenset[Record]().union(*(disks[broker].records for broker in self.heard))
        served = disks[designee].records
        return held - frozenset(pair for pair in served if limit is None or pair[1] < limit)


@st.composite
def read_once(draw: st.DrawFn) -> Claim:
    """A life that is read for the first time, some of its brokers silent."""
    life, gone = draw(lives_with_brokers_gone())
    floor = draw(st.integers(0, life.ever_marked))
    return Claim(life, gone, life.evidence(draw(silences()), floor))


@st.composite
def read_twice(draw: st.DrawFn) -> Claim:
    """A life that was read, lived on, and is read again with what is remembered of then."""
    life = draw(offline_lives())
    then = life.evidence(draw(silences()))
    live_through(life, draw(st.lists(MEANWHILE, max_size=6)))
    life.finish()
    if draw(st.booleans()):
        life.forget()
    down = [broker for broker in BROKERS if not life.disks[broker].up]
    gone = frozenset(draw(st.lists(st.sampled_from(down), unique=True)) if down else [])
    return Claim(life, gone, remembering(then, life.evidence(draw(silences()))))


@st.composite
def damaged(draw: st.DrawFn) -> Claim:
    """A life that is read once, with damage done to some of its logs."""
    claim = draw(read_once())
    offsets: dict[int, int] = {}
    replicas = []
    for replica in claim.evidence.replicas:
        disk = claim.life.disks[replica.broker]
        if draw(st.booleans()) and disk.records:
            offsets[replica.broker] = draw(st.integers(disk.start, disk.end - 1))
        replicas.append(contents_read(draw, replica, offsets.get(replica.broker)))
    evidence = replace(claim.evidence, replicas=tuple(replicas))
    return replace(claim, evidence=evidence, damaged=offsets)


def contents_read(draw: st.DrawFn, replica: ReplicaLog, corrupt_at: int | None) -> ReplicaLog:
    """*replica* with its contents read back to any offset, or not at all."""
    start, end = replica.log_start, replica.log_end
    if isinstance(start, Unknown) or isinstance(end, Unknown) or draw(st.integers(0, 3)) == 0:
        return replace(replica, contents=CONTENTS_UNREAD)
    back_to = draw(st.one_of(st.just(start), st.integers(start, end)))
    stopped = "the budget ended" if back_to > start else ""
    contents = LogContents(back_to, end, stopped=stopped)
    if corrupt_at is not None and corrupt_at >= back_to:
        contents = LogContents(back_to, corrupt_at, corrupt_at, "its CRC differs", stopped=stopped)
    return replace(replica, contents=contents)


many = settings(max_examples=examples(500))
"""Few lives end in a claim that says much."""
READ = st.one_of(read_once(), read_twice(), damaged())


@many
@given(READ)
def test_safe_cuts_no_record_off_any_replica_that_is_not_declared_gone(claim: Claim) -> None:
    found = claim.found
    if found.verdict is Verdict.SAFE:
        assert found.designee is not None
        for broker in set(BROKERS) - claim.gone:
            assert not claim.cut(broker, found.designee)
        assert claim.lost(found.designee) == frozenset()


@many
@given(READ)
def test_loss_and_safe_are_said_only_when_all_that_can_be_heard_was(claim: Claim) -> None:
    found = claim.found
    if found.verdict in (Verdict.SAFE, Verdict.LOSS):
        assert found.designee is not None
        for broker in set(claim.unread) - claim.gone:
            assert not claim.cut(broker, found.designee)


@many
@given(READ)
def test_no_price_is_below_what_readable_logs_lose_and_no_phrase_names_a_lower_one(
    claim: Claim,
) -> None:
    for designee in BROKERS:
        total = loss_of(claim.evidence, designee).total
        if isinstance(total, int):
            cut = (claim.cut(broker, designee) for broker in claim.heard)
            assert total >= len(frozenset[Record]().union(*cut))
    for designee in claim.heard:
        total = loss_of(claim.evidence, designee).total
        assert isinstance(total, Unknown) or total >= len(claim.lost(designee))
        named = re.search(r" lose ~?([\d,]+)", claim.phrase(designee))
        assert not named or int(named[1].replace(",", "")) >= len(claim.lost(designee))


@many
@given(READ)
def test_whom_an_election_abandons_is_named_in_its_phrase_and_written_down(claim: Claim) -> None:
    for designee in claim.heard:
        cut = {broker for broker in claim.unread if claim.cut(broker, designee)}
        named = claim.phrase(designee).partition(" and abandon ")[2].split(", ")
        assert {f"b{broker}" for broker in cut} <= set(named)
        line = planned(claim.priced(designee))
        abandoned = line["abandons"]
        assert isinstance(abandoned, tuple)
        assert cut <= set(abandoned)
        assert line["unread_at_least"] == claim.found.unread.at_least


@many
@given(READ)
def test_a_phrase_for_many_passes_over_no_broker_that_holds_more(claim: Claim) -> None:
    """Whoever is not declared gone, and may hold more, is agreed to on its own."""
    for designee in claim.heard:
        if not claim.priced(designee).stake.why_alone:
            assert claim.known_damage(designee) is None
            for broker in set(claim.unread) - claim.gone:
                assert not claim.cut(broker, designee)


@many
@given(READ)
def test_a_price_is_the_same_whether_or_not_what_was_judged_is_worked_out_again(
    claim: Claim,
) -> None:
    found = claim.found
    for designee in BROKERS:
        target = target_of(claim.evidence, designee)
        assert priced_as_judged(found, target) == frozen(claim.evidence, designee, found.gone)


@given(read_once())
def test_r11_a_lower_bound_is_never_above_what_was_committed_and_cannot_be_read(
    claim: Claim,
) -> None:
    at_least = claim.found.unread.at_least
    ends = [end for log in claim.evidence.replicas if isinstance(end := log.log_end, int)]
    committed = {at for _, at in claim.life.ever_committed if at >= max(ends, default=0)}
    assert isinstance(at_least, int)
    assert at_least <= len(committed)


@many
@given(READ)
def test_r09_no_election_is_automatic_that_cuts_committed_records_or_is_corrupt(
    claim: Claim,
) -> None:
    """A fork is decided by an operator, whoever else is to be started first."""
    found = claim.found
    if found.automatable:
        assert found.loss is not None
        assert found.loss.committed_elsewhere is False
        assert claim.known_damage(found.loss.candidate) is None


@many
@given(damaged())
def test_what_is_said_to_be_whole_is_whole(claim: Claim) -> None:
    for broker in claim.heard:
        said = contents_text(claim.log(broker))
        assert planned(claim.priced(broker))["contents"] == said
        ends = re.match(r"whole ([\d,]+)\.\.([\d,]+)", said)
        if ends is not None and broker in claim.damaged:
            start, end = (int(group.replace(",", "")) for group in ends.groups())
            assert not start <= claim.damaged[broker] < end


class Enough(Exception):
    """All kinds of claims were seen."""


def test_the_model_makes_claims_about_corrupt_logs() -> None:
    """Properties that no example meets prove nothing."""
    seen: set[str] = set()

    @settings(max_examples=1_000, derandomize=True, phases=[Phase.generate])
    @given(damaged())
    def look(claim: Claim) -> None:
        best, verdict = claim.found.best, claim.found.verdict
        known = [broker for broker in claim.heard if claim.known_damage(broker) is not None]
        if best is not None and verdict in (Verdict.SAFE, Verdict.LOSS):
            side = "best" if best in known else "another" if known else "none"
            seen.add(f"{verdict} {side}")
            if best in claim.damaged and best not in known:
                seen.add(f"{verdict} unseen")
        if seen >= {"SAFE another", "LOSS best", "SAFE unseen"}:
            raise Enough

    with pytest.raises(Enough):
        look()


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
    claim = Claim(life, frozenset({1, 3}), remembering(then, life.evidence()))
    assert 4 in claim.unread
    assert claim.conclusion == (Verdict.SAFE, "elect b2")
    assert claim.phrase(2) == "orders-3 lose 0 and abandon b1, b3"
    assert replace(claim, evidence=life.evidence()).conclusion == (Verdict.WAIT, "start b4")


def test_what_was_reported_before_a_replica_led_again_proves_nothing() -> None:
    life = life_of(("write", 3), ("stop", 4), ("stop", 3))
    life.start(2)
    life.start(4)
    then = life.evidence()
    live_through(life, [("elect_uncleanly", 4), ("append", 5)])
    life.finish()
    life.forget()
    claim = Claim(life, frozenset({1, 3}), remembering(then, life.evidence()))
    assert claim.conclusion == (Verdict.WAIT, "start b4")


def test_what_a_leader_reported_while_it_was_cut_off_proves_nothing() -> None:
    """It goes on taking records in the epoch in which it led, and no broker contradicts it."""
    life = Life()
    live_through(life, [("write", 3), ("stop", 2), ("stop", 3), ("stop", 4), ("cut_off", 1)])
    life.forget()
    life.start(2)
    then = life.evidence()
    told = then.replica(1)
    assert told is not None
    assert told.leader_epoch != then.state.leader_epoch
    life.append_while_cut_off(1, 4)
    claim = Claim(life, frozenset({3, 4}), remembering(then, life.evidence(frozenset({1}))))
    assert claim.cut(1, 2)
    assert (claim.found.verdict, claim.found.unheard) == (Verdict.WAIT, (1,))


FEW, MANY = 200, 400
LINEAR = 2.2
"""Twice the partitions may be so many times the work: sorting is a little more than twice."""
CLUSTER = "large-cluster"
OWN_BROKER = 1


class Size(NamedTuple):
    """An incident with everything that is made of it."""

    cluster: LargeCluster
    evidence: tuple[PartitionEvidence, ...]
    assessments: list[Assessment]
    incident: Incident
    plan: Plan
    subject: ElectionSubject
    folder: Path

    @property
    def circumstances(self) -> Circumstances:
        return self.incident.circumstances

    @property
    def partitions(self) -> list[TopicPartition]:
        """Of the incident, the last first."""
        return [evidence.partition for evidence in reversed(self.evidence)]


def _of(count: int, folder: Path) -> Size:
    cluster = generated(count, count)
    evidence = _assembled(cluster)
    circumstances = Circumstances(cluster.snapshot.quorum)
    assessments = [assess(partition, circumstances) for partition in evidence]
    rows = tuple(judged_rows(evidence, circumstances, 0))
    folder.mkdir()
    return Size(
        cluster,
        evidence,
        assessments,
        Incident(cluster.snapshot, circumstances, rows),
        make_plan(assessments, CLUSTER, 0),
        subject_of(CLUSTER, [each.partition for each in assessments], assessments),
        folder,
    )


def _assembled(cluster: LargeCluster) -> tuple[PartitionEvidence, ...]:
    snapshot = cluster.snapshot
    return assemble(
        snapshot.offline,
        snapshot.description,
        snapshot.settings,
        cluster.answers,
        cluster.silent,
        {},
    )


def _saved(size: Size) -> object:
    path = size.folder / "plan.json"
    opened = save_plan(size.plan, path, None)
    read, again = open_plan(path)
    assert (read.digest, again.fingerprint) == (size.plan.digest, opened.fingerprint)
    return plan_rows(read), consent_groups(read), totals_of(read)


def _reported(size: Size) -> object:
    """Journalled and accounted for."""
    act = Elect(find=lambda _: size.subject)
    with Journal.open(CLUSTER, size.folder) as journal:
        act.announce(journal, frozen_elections(size.subject), ["agreed"], implied=False)
    return ledger_of(gathered(account_of(journal.path), size.folder)).sums


STEPS: dict[str, Callable[[Size], object]] = {
    "evidence": lambda size: _assembled(size.cluster),
    "verdicts": lambda size: [assess(each, size.circumstances) for each in size.evidence],
    "headline": lambda size: summarize(size.assessments),
    "rows": lambda size: list(judged_rows(size.evidence, size.circumstances, 0)),
    "forecast": lambda size: forecast_of(size.incident.rows),
    "evidence thawed": lambda size: list(size.incident.assessments(size.partitions)),
    "plan": lambda size: make_plan(size.assessments, CLUSTER, 0),
    "plan written and read": _saved,
    "edit": lambda size: never(size.plan, OWN_BROKER, only=size.partitions).digest,
    "subject": lambda size: subject_of(CLUSTER, size.partitions, size.assessments).summed(),
    "left out": lambda size: size.subject.without(size.partitions, "changed"),
    "ledger": _reported,
}


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Size, Size]:
    """An incident, and one of twice the partitions."""
    folder = tmp_path_factory.mktemp("sizes")
    return _of(FEW, folder / "few"), _of(MANY, folder / "many")


@pytest.mark.parametrize("step", STEPS)
def test_twice_the_partitions_are_twice_the_work(sizes: tuple[Size, Size], step: str) -> None:
    few, many = (calls_of(partial(STEPS[step], size)) for size in sizes)
    assert 0 < many <= LINEAR * few, f"{step}: {few:,} calls for {FEW}, {many:,} for {MANY}"
