"""No claim is better than a count of what consumers could read, where logs may be corrupt.

The lives of `random_histories` with damage done to some logs, and contents that were read back to
any offset, or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from breakglass.services.model import (
    CONTENTS_UNREAD,
    LogContents,
    PartitionEvidence,
    ReplicaLog,
    Unknown,
)
from breakglass.services.recovery.guarded.election_quote import frozen, groups_of, planned
from breakglass.services.recovery.judgement.assessment import Assessment, Verdict
from breakglass.services.recovery.judgement.loss import loss_of
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.words.contents import contents_text
from tests.unit.recovery.random_histories import (
    Life,
    Record,
    lives_with_brokers_gone,
    silences,
)
from tests.unit.recovery.replicas import HEALTHY


@dataclass(frozen=True)
class CorruptClaim:
    """What the product says of a life, and the truth beside it."""

    life: Life
    gone: frozenset[int]
    damaged: Mapping[int, int]
    """By broker, the first offset that cannot be read of it, whether anybody knows or not."""
    evidence: PartitionEvidence
    found: Assessment

    @property
    def heard(self) -> list[int]:
        logs = self.evidence.replicas
        return [log.broker for log in logs if not isinstance(log.log_end, Unknown)]

    def log(self, broker: int) -> ReplicaLog:
        found = self.evidence.replica(broker)
        assert found is not None
        return found

    def known_damage(self, broker: int) -> int | None:
        """The damage of *broker*'s log, if it lies where its contents were read."""
        at, contents = self.damaged.get(broker), self.log(broker).contents
        read = isinstance(contents, LogContents) and at is not None and contents.verified_from <= at
        return at if read else None

    def served(self, broker: int) -> frozenset[Record]:
        """What consumers read if *broker* leads, as far as anybody looked."""
        limit = self.known_damage(broker)
        held = self.life.disks[broker].records
        return held if limit is None else frozenset(pair for pair in held if pair[1] < limit)

    def lost(self, designee: int) -> frozenset[Record]:
        """What a broker that was heard holds, and consumers of *designee* do not read."""
        held = frozenset[Record]().union(
            *(self.life.disks[number].records for number in self.heard)
        )
        return held - self.served(designee)


@st.composite
def corrupt_claims(draw: st.DrawFn) -> CorruptClaim:
    life, gone = draw(lives_with_brokers_gone())
    evidence = life.evidence(draw(silences()), draw(st.integers(0, life.ever_marked)))
    damaged: dict[int, int] = {}
    replicas = []
    for replica in evidence.replicas:
        disk = life.disks[replica.broker]
        worn = draw(st.booleans())
        if worn and disk.records:
            damaged[replica.broker] = draw(st.integers(disk.start, disk.end - 1))
        replicas.append(_read(draw, replica, damaged.get(replica.broker)))
    shown = replace(evidence, replicas=tuple(replicas))
    circumstances = replace(HEALTHY, ruled_out=dict.fromkeys(gone, "declared gone"))
    return CorruptClaim(life, gone, damaged, shown, assess(shown, circumstances))


def _read(draw: st.DrawFn, replica: ReplicaLog, damaged: int | None) -> ReplicaLog:
    """*replica* with its contents read back to any offset, or not at all."""
    start, end = replica.log_start, replica.log_end
    if isinstance(start, Unknown) or isinstance(end, Unknown) or draw(st.integers(0, 3)) == 0:
        return replace(replica, contents=CONTENTS_UNREAD)
    back_to = draw(st.one_of(st.just(start), st.integers(start, end)))
    stopped = "the budget ended" if back_to > start else ""
    if damaged is not None and damaged >= back_to:
        contents = LogContents(back_to, damaged, damaged, "its CRC differs", stopped=stopped)
    else:
        contents = LogContents(back_to, end, stopped=stopped)
    return replace(replica, contents=contents)


many = settings(max_examples=600)


@many
@given(corrupt_claims())
def test_no_price_is_below_what_consumers_will_not_read(claim: CorruptClaim) -> None:
    for designee in claim.heard:
        total = loss_of(claim.evidence, designee).total
        if isinstance(total, int):
            assert total >= len(claim.lost(designee))


@many
@given(corrupt_claims())
def test_no_phrase_names_a_lower_price(claim: CorruptClaim) -> None:
    for designee in claim.heard:
        (group,) = groups_of([frozen(claim.evidence, designee, claim.gone)])
        named = re.search(r" lose ~?([\d,]+)", group.phrase)
        if named is not None:
            assert int(named[1].replace(",", "")) >= len(claim.lost(designee))


@many
@given(corrupt_claims())
def test_safe_loses_nothing_that_was_heard_and_reads_all_that_was_verified(
    claim: CorruptClaim,
) -> None:
    designee = claim.found.designee
    if claim.found.verdict is Verdict.SAFE:
        assert designee is not None
        assert claim.lost(designee) == frozenset()
        if designee in claim.damaged:
            assert "whole;" not in f"{claim.found.reasons[0]};"


@many
@given(corrupt_claims())
def test_a_replica_that_is_known_to_be_corrupt_is_agreed_to_on_its_own(
    claim: CorruptClaim,
) -> None:
    for designee in claim.heard:
        if claim.known_damage(designee) is not None:
            assert frozen(claim.evidence, designee, claim.gone).stake.why_alone
    proposed = claim.found.designee
    if proposed is not None and claim.known_damage(proposed) is not None:
        assert not claim.found.automatable


@many
@given(corrupt_claims())
def test_what_is_said_to_be_whole_is_whole(claim: CorruptClaim) -> None:
    for broker in claim.heard:
        said = contents_text(claim.log(broker))
        assert planned(frozen(claim.evidence, broker, claim.gone))["contents"] == said
        ends = re.match(r"whole ([\d,]+)\.\.([\d,]+)", said)
        if ends is not None and broker in claim.damaged:
            start, end = (int(group.replace(",", "")) for group in ends.groups())
            assert not start <= claim.damaged[broker] < end


def test_the_model_makes_claims_about_corrupt_logs() -> None:
    """Properties that no example meets prove nothing."""
    seen: set[str] = set()

    @settings(many, derandomize=True)
    @given(corrupt_claims())
    def look(claim: CorruptClaim) -> None:
        best, verdict = claim.found.best, claim.found.verdict
        known = [number for number in claim.heard if claim.known_damage(number) is not None]
        if best is not None and verdict in (Verdict.SAFE, Verdict.LOSS):
            side = "best" if best in known else "another" if known else "none"
            seen.add(f"{verdict} {side}")
            if best in claim.damaged and best not in known:
                seen.add(f"{verdict} unseen")

    look()
    assert seen >= {"SAFE another", "LOSS best", "SAFE unseen"}
