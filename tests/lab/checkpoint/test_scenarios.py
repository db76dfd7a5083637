"""The ZEP's failure scenarios on a real broker: a worker dies, another node takes over (H13).

An owner is a member of the group; committed is what it has noted in the control topic; the old
leader's backup is what node 1 has copied.
"""

import pytest

from breakglass.services.checkpoint.kafka.owners import take_over
from breakglass.services.checkpoint.protocol.values import OWNER_CHANGED, CopyId, Status
from breakglass.services.checkpoint.store.documents import TakeDocument
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.errors import Refused
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.taking import Taking, read, take_of

OLD, NEW = 1, 2
"""Nodes."""


@pytest.fixture
def taken(settled_bank: Branch, taking: Taking) -> TakeDocument:
    """Checkpoint 1 as it was acknowledged; node 1 has noted every copy as begun."""
    with taking.parts(settled_bank, node=OLD) as (coordinator, _):
        assert coordinator.take() == 1
    return take_of(read(taking.store))


def never_begun(taking: Taking) -> None:
    """Node 1 died between removing what it had of its copies and beginning anew."""
    for number in (1, 2, 3):
        taking.store.copies.begin_anew(CopyId(1, number, OLD))


def taken_over(bank: Branch, taking: Taking, take: TakeDocument, control: str = "") -> list[int]:
    """The partitions that have failed because node 2 took over."""
    return list(take_over(taking.client, taking.store, take, control or bank.control))


def finished(bank: Branch, taking: Taking) -> StoredCheckpoint:
    """What node 2 makes of it, with a member at work."""
    with taking.parts(bank, node=NEW) as (_, finisher), bank.working(1):
        return finisher.finish(1)


def nodes(found: StoredCheckpoint, status: Status) -> list[list[int]]:
    return [
        [copy.id.node for copy in part.copies if copy.copy.status is status]
        for part in found.partitions
    ]


@pytest.mark.parametrize(
    ("begun", "left"), [(False, []), (True, [OLD])], ids=["s1 never begun", "s2 begun in part"]
)
def test_h13_what_the_old_node_has_not_committed_is_copied_by_the_new_one(
    settled_bank: Branch, taking: Taking, taken: TakeDocument, begun: bool, left: list[int]
) -> None:
    if not begun:
        never_begun(taking)
    assert taken_over(settled_bank, taking, taken) == []
    found = finished(settled_bank, taking)
    assert found.status is Status.COMPLETED
    assert nodes(found, Status.COMPLETED) == [[NEW]] * 3
    assert nodes(found, Status.ONGOING) == [left] * 3


@pytest.mark.parametrize(
    ("begun", "control"),
    [
        pytest.param(True, "", id="s4 committed and begun by the old node alone"),
        pytest.param(True, "nothing-is-noted-there", id="s5 past it by what is beside the offsets"),
        pytest.param(False, "", id="s6 committed and never begun"),
        pytest.param(False, "nothing-is-noted-there", id="s7 past it and never begun"),
    ],
)
def test_h13_what_the_groups_are_past_has_failed_when_another_node_takes_over(
    settled_bank: Branch, taking: Taking, taken: TakeDocument, begun: bool, control: str
) -> None:
    if not begun:
        never_begun(taking)
    settled_bank.settle()
    assert taken_over(settled_bank, taking, taken, control) == [1, 2, 3]
    found = read(taking.store)
    assert found.status is Status.FAILED
    assert [partition.failure for partition in found.partitions] == [OWNER_CHANGED] * 3
    with pytest.raises(Refused):
        finished(settled_bank, taking)
