"""Replicas that nobody has heard: what is said of them, and what proves that they hold no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from breakglass.services.model import Forfeited, PartitionEvidence, ReplicaLog, Role, Unknown
from breakglass.services.recovery.judgement.assessment import Assessment, Verdict, own_consent
from breakglass.services.recovery.judgement.heard_before import remembering
from breakglass.services.recovery.judgement.inputs import abandoned, proof_of_no_more
from breakglass.services.recovery.judgement.summary import summarize
from breakglass.services.recovery.judgement.verdict import assess
from tests.unit.recovery.replicas import ANOTHER_TOPIC_ID, HEALTHY, log, offline, silent

LAST = Role.LAST_KNOWN_ELR


def judged(*replicas: ReplicaLog, gone: tuple[int, ...] = (), passed: bool = True) -> Assessment:
    ruled_out = dict.fromkeys(gone, "declared gone")
    circumstances = replace(HEALTHY, ruled_out=ruled_out, deadline_passed=passed)
    return assess(offline(*replicas, floor=0), circumstances)


def test_the_replica_that_is_down_is_started_before_anybody_is_elected() -> None:
    """b1 led last and is gone for good; b2 was stopped cleanly before, b3 missed what it has."""
    found = judged(silent(1, role=LAST), silent(2), log(3, (0, 10)), gone=(1,))
    assert (found.verdict, str(found.action), found.designee) == (Verdict.WAIT, "start b2", 3)
    assert found.reasons[0] == (
        "b2 is down and may hold more than b3: start it (or declare it gone)"
    )
    assert (found.restorers, found.unheard, found.automatable) == ((), (2,), True)


def test_declared_gone_it_is_waited_for_no_more() -> None:
    found = judged(silent(1), silent(2), log(3, (0, 10)), gone=(1, 2))
    assert (found.verdict, found.unheard) == (Verdict.SAFE, ())


def test_one_rule_for_logs_with_records_and_without() -> None:
    """An EMPTY winner beside an unread replica was a LOSS, and one with records SAFE."""
    assert [judged(silent(2), one).verdict for one in (log(3), log(3, (0, 10)))] == [
        Verdict.WAIT,
        Verdict.WAIT,
    ]


@pytest.mark.parametrize(
    ("replica", "passed", "action", "reason"),
    [
        pytest.param(
            silent(2, fenced=False), True, "start b2",
            "b2 is unread and may hold more than b3: it is not fenced but does not report its "
            "log, so restart or stop it (or declare it gone)",
            id="it hangs",
        ),
        pytest.param(
            replace(silent(2), reachable=True), True, "reconnect b2",
            "b2 is unread and may hold more than b3: it runs but is fenced, so restore its way to "
            "the controllers (or declare it gone)",
            id="it is cut off",
        ),
        pytest.param(
            silent(2, fenced=False), False, "await b2",
            "b2 has not answered yet and may hold more than b3: wait until the recovery duration "
            "has passed",
            id="it may still answer",
        ),
    ],
)  # fmt: skip
def test_the_action_is_what_makes_it_tell_its_log(
    replica: ReplicaLog, passed: bool, action: str, reason: str
) -> None:
    found = judged(replica, log(3, (0, 10)), passed=passed)
    assert (found.verdict, str(found.action), found.reasons[0]) == (Verdict.WAIT, action, reason)


def test_a_forfeited_log_is_not_started_and_makes_nothing_safe() -> None:
    forfeited = replace(silent(2), log_end=Forfeited("it would destroy what others hold"))
    found = judged(forfeited, log(3, (0, 10)))
    assert (found.verdict, found.unheard) == (Verdict.LOSS, ())
    assert "better left down" in found.reasons[0]
    assert judged(forfeited, log(3, (0, 10)), gone=(2,)).verdict is Verdict.SAFE


def test_what_makes_a_partition_whole_is_started_first() -> None:
    found = judged(silent(1, role=LAST), silent(2), log(3, (0, 10)))
    assert (str(found.action), found.restorers, found.unheard) == ("start b1", (1,), (2,))


def test_r09_a_fork_beside_an_unheard_replica_is_decided_by_nobody_else() -> None:
    found = judged(silent(2), log(1, (0, 1000), hw=990), log(3, (0, 10), (5, 12), hw=12))
    assert (found.verdict, found.designee, found.automatable) == (Verdict.WAIT, None, False)


def test_the_headline_names_the_broker_that_may_hold_more() -> None:
    waiting = [judged(silent(2), log(3, (0, 10))) for _ in range(3)]
    assert summarize(waiting).headline == "Start b2: it may hold more of 3 partitions."
    one = summarize([judged(silent(2, fenced=False), log(3, (0, 10)), passed=False)])
    assert one.headline == "Wait for b2: it may hold more of 1 partition."


def test_what_comes_back_whole_is_the_headline_before_it() -> None:
    found = [
        judged(silent(2), log(3, (0, 10))),
        judged(silent(1, role=LAST), log(3, (8, 10))),
    ]
    assert summarize(found).headline == "Start b1: 1 of 2 comes back whole."


def told(*epochs: tuple[int, int], start: int = 0) -> ReplicaLog:
    """b2, silent, which told this log while the partition was as it is now."""
    return silent(2, last_heard=log(2, *epochs, start=start, end=start))


@pytest.mark.parametrize(
    ("before", "candidate", "proved"),
    [
        pytest.param(told((0, 10)), log(3, (0, 10)), True, id="the same log"),
        pytest.param(told((0, 5)), log(3, (0, 10)), True, id="a prefix"),
        pytest.param(told(), log(3, (0, 10)), True, id="no records"),
        pytest.param(told((0, 11)), log(3, (0, 10)), False, id="one more"),
        pytest.param(told((0, 5), (1, 6)), log(3, (0, 10)), False, id="another lineage"),
        pytest.param(told((0, 10)), log(3, (0, 10), start=4), False, id="an older head"),
        pytest.param(told((0, 10), start=4), log(3, (0, 10), start=4), True, id="the same head"),
        pytest.param(silent(2), log(3, (0, 10)), False, id="never heard"),
    ],
)
def test_a_log_that_was_told_proves_no_more_when_it_is_a_prefix(
    before: ReplicaLog, candidate: ReplicaLog, proved: bool
) -> None:
    evidence = offline(before, candidate, floor=0)
    assert bool(proof_of_no_more(evidence, before, candidate)) is proved
    assert abandoned(evidence, 3) == (() if proved else (2,))
    assert (assess(evidence, HEALTHY).verdict is Verdict.SAFE) is proved


def test_the_proof_is_told_as_a_sentence() -> None:
    found = judged(told((0, 5)), log(3, (0, 10)))
    assert (
        "b2 reported its log at 1970-01-01 00:00:05Z, without a leader since: it held no more "
        "than b3"
    ) in found.reasons
    assert found.heard == (1, 2), "it was not heard now"


def test_a_log_told_by_a_broker_that_knew_another_epoch_proves_nothing() -> None:
    cut_off = replace(log(2, (0, 5)), leader_epoch=8)
    assert judged(silent(2, last_heard=cut_off), log(3, (0, 10))).verdict is Verdict.WAIT


class TestRemembering:
    """What was told earlier counts for as long as nobody has led since."""

    THEN = offline(log(2, (0, 5)), log(3, (0, 10)))

    def now(self, **changed: Any) -> PartitionEvidence:
        silence = offline(silent(2), log(3, (0, 10)))
        return replace(silence, state=replace(silence.state, **changed))

    def test_it_is_kept_while_the_partition_is_as_it_was(self) -> None:
        found = remembering(self.THEN, self.now()).replicas[0]
        assert found.last_heard == self.THEN.replicas[0]
        assert isinstance(found.log_end, Unknown), "it is no reading of now"

    def test_it_is_handed_on_from_reading_to_reading(self) -> None:
        once = remembering(self.THEN, self.now())
        assert remembering(once, self.now()).replicas == once.replicas

    @pytest.mark.parametrize(
        "changed", [{"leader_epoch": 10}, {"topic_id": ANOTHER_TOPIC_ID}, {"leader": 3}]
    )
    def test_it_is_forgotten_once_somebody_may_have_led(self, changed: dict[str, object]) -> None:
        now = self.now(**changed)
        assert remembering(self.THEN, now) is now

    def test_what_is_read_now_needs_no_memory(self) -> None:
        assert remembering(self.THEN, self.THEN) is self.THEN
        assert remembering(None, self.THEN) is self.THEN


@pytest.mark.parametrize(
    ("replicas", "gone", "why"),
    [
        pytest.param(
            [silent(1, role=LAST), log(3, (0, 10))], (),
            "b1 would bring it back whole: start it, or declare it gone (--gone 1)",
            id="passed over, it would make it whole",
        ),
        pytest.param(
            [silent(1, role=LAST), silent(2), log(3, (0, 10))], (),
            "b1 would bring it back whole and b2 may hold more: start each, or declare each gone "
            "(--gone 1 --gone 2)",
            id="passed over, both kinds",
        ),
        pytest.param([silent(1, role=LAST), log(3, (0, 10))], (1,), "", id="declared gone"),
        pytest.param([log(1, (0, 5)), log(3, (0, 10))], (), "", id="all heard"),
    ],
)  # fmt: skip
def test_whoever_is_passed_over_has_a_phrase_of_its_own(
    replicas: list[ReplicaLog], gone: tuple[int, ...], why: str
) -> None:
    assert own_consent(offline(*replicas, floor=0), 3, gone) == why


def test_r11_an_unread_log_of_which_nothing_is_known_has_a_phrase_of_its_own() -> None:
    evidence = offline(silent(1), log(3, (0, 10)))
    assert own_consent(evidence, 3, (1,)) == (
        "nothing is known of what unread b1 holds: consumer groups were not read"
    )
