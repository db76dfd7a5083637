"""Groups that committed past the end of what is left (R19)."""

from dataclasses import replace

import pytest

from breakglass.console.evidence import say_past_end
from breakglass.services.model import PartitionEvidence, Unknown
from breakglass.services.recovery.execution.target import target_of
from breakglass.services.recovery.guarded.aftermath import GroupPastEnd, groups_unread, past_end
from tests.unit.recovery.plans import SAFE
from tests.unit.recovery.replicas import log, offline


def with_groups(evidence: PartitionEvidence, **offsets: int) -> PartitionEvidence:
    return replace(evidence, group_offsets=offsets)


def found(*evidence: PartitionEvidence, designee: int = 1) -> tuple[GroupPastEnd, ...]:
    targets = [target_of(one, designee) for one in evidence]
    return past_end(targets, {one.partition: one for one in evidence})


def test_r19_nothing_is_claimed_where_groups_or_the_log_are_unknown() -> None:
    unheard = replace(SAFE, group_offsets=Unknown("__consumer_offsets is offline"))
    assert found(unheard) == ()
    assert found(with_groups(SAFE, billing=95), designee=3) == ()


def test_r33_groups_that_could_not_be_read_are_named_once_and_hide_no_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    why = "groups of __consumer_offsets-3 are not known: it is offline"
    partitions = [
        replace(
            with_groups(offline(log(1, (0, 9)), number=number), billing=12), groups_unread=(why,)
        )
        for number in range(2)
    ]
    targets = [target_of(one, 1) for one in partitions]
    unread = groups_unread(targets, {one.partition: one for one in partitions})
    say_past_end(found(*partitions), unread, "now")
    told, billing = capsys.readouterr().err.splitlines()
    assert (unread, why in told, "billing" in billing) == ((why,), True, True)


def test_r19_each_group_has_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    partitions = [
        with_groups(offline(log(1, (0, 9)), number=number), billing=12, audit=9 + number)
        for number in range(3)
    ]
    say_past_end(found(*partitions), (), "now")
    billing, audit = capsys.readouterr().err.splitlines()
    assert ("billing: committed 12 on orders-0" in billing, "2 more" in billing) == (True, True)
    assert ("audit: committed 10 on orders-1" in audit, "1 more" in audit) == (True, True)
