"""Explains in sentences what the loss of a key of an internal topic means for its clients. Pure.

The sentences say what Kafka's coordinators do with a state that is older than their clients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from breakglass.services.recovery.internal_topics.records import (
    COPIED,
    DECIDED,
    DELETED,
    GroupMembership,
    GroupPosition,
    SegmentState,
    SharePosition,
    StateKey,
    StateKind,
    StateValue,
    TransactionalState,
)
from breakglass.services.recovery.internal_topics.state import finished_beyond

LIST_OPEN = "see `breakglass after transactions list`"
COMMIT_FIRST = (
    "`breakglass after transactions finish`, with this log as --source, commits it before"
)
ENDED = ("CompleteCommit", "CompleteAbort", "Empty", "Dead")
SEGMENT_STATES = {0: "copy started", 1: "copied", 2: "deletion started", 3: "deleted"}


@dataclass(frozen=True, slots=True)
class LostState:
    """One key whose state an election loses or sets back."""

    key: StateKey
    lost: StateValue | None
    """The state in the lost log; None: the lost log removed the key."""
    left: StateValue | None
    """The state in the kept log; None: no state."""

    @property
    def back(self) -> int | None:
        """By how many records a group or share group moves back; None for other keys."""
        if isinstance(self.lost, GroupPosition) and isinstance(self.left, GroupPosition):
            return self.lost.offset - self.left.offset
        if isinstance(self.lost, SharePosition) and isinstance(self.left, SharePosition):
            return _done(self.lost) - _done(self.left)
        return None

    @property
    def harmless(self) -> bool:
        """Whether clients notice nothing: the group rebuilds the state, or `left` is newer."""
        if self.key.kind is StateKind.GROUP:
            return True
        return self.back is not None and self.back <= 0

    @property
    def meaning(self) -> str:
        """What the loss leads to."""
        return _MEANINGS[self.key.kind](self)


def value_text(value: StateValue | None) -> str:
    """A state as a table's cell; ``none`` without a state."""
    if value is None:
        return "none"
    if isinstance(value, GroupPosition):
        return f"{value.offset:,}"
    if isinstance(value, GroupMembership):
        return "members"
    if isinstance(value, TransactionalState):
        return f"{value.status}, producer {value.producer_id} epoch {value.producer_epoch}"
    if isinstance(value, SharePosition):
        beyond = finished_beyond(value)
        return f"{value.start_offset:,}" + (f" and {beyond:,} beyond" if beyond else "")
    return SEGMENT_STATES.get(value.state, f"state {value.state}")


def _offset(one: LostState) -> str:
    if one.lost is None:
        return "its offset had been removed and is back: the group goes on from there"
    if one.left is None:
        return "nothing is left: its consumers begin where auto.offset.reset says"
    back = one.back or 0
    if back <= 0:
        return "what is left is not older: the group has committed since"
    return f"it goes back by {back:,} offsets, and reads these records again"


def _group(one: LostState) -> str:
    if one.lost is None:
        return "the group had been deleted and is back, until its offsets expire"
    return "members join again, and agree on generation and assignment; nothing is read twice by it"


def _transactional_id(one: LostState) -> str:
    lost, left = one.lost, one.left
    assert isinstance(lost, TransactionalState | None)
    assert isinstance(left, TransactionalState | None)
    if lost is None:
        return "the id had expired and is back: its next producer is given the next epoch"
    if left is None:
        return (
            f"the coordinator forgets the id: a producer that runs is refused until it is started "
            f"again, and then gets a new producer id; an older producer {_id(lost)} is not fenced"
            + _hanging(lost)
        )
    if lost.producer_id == left.producer_id and lost.producer_epoch > left.producer_epoch:
        return _older_epoch(lost, left)
    if lost.producer_id != left.producer_id:
        return (
            f"the producer that runs ({_id(lost)}) is refused until it is started again; the one "
            f"before it ({_id(left)}) counts as the living one until then" + _hanging(lost)
        )
    return "the same producer" + _decision(lost, left)


def _older_epoch(lost: TransactionalState, left: TransactionalState) -> str:
    """What an older producer epoch leads to, as tried on 3.9.2 and 4.3.1.

    Partitions remember the newest epoch and its sequence numbers.
    """
    seen = lost.producer_epoch
    if left.status.startswith("Prepare"):
        return (
            f"its coordinator cannot end the transaction that is {left.status} again, for "
            f"partitions have seen epoch {seen}: initTransactions may answer "
            "CONCURRENT_TRANSACTIONS for ever; give the producer another transactional id"
        )
    starts = seen - left.producer_epoch + 1
    return (
        f"the producer that runs (epoch {seen}) is refused; each start raises the epoch from "
        f"{left.producer_epoch} by one: below {seen} partitions refuse its records, AT {seen} they "
        "acknowledge them and DROP them as duplicates; call initTransactions "
        f"{starts:,} times before anything is written, or give it another transactional id"
        + _decision(lost, left)
    )


def _decision(lost: TransactionalState, left: TransactionalState) -> str:
    """What happens to a transaction whose decision was lost."""
    if DECIDED.get(lost.status) and left.status == "Ongoing":
        return (
            "; a transaction that was committed is Ongoing again, and is ABORTED at its timeout "
            f"on every partition that has no commit marker yet: {COMMIT_FIRST}"
        )
    if lost.status in ENDED and left.status.startswith("Prepare"):
        return "; its coordinator writes the markers again, which changes nothing"
    return _hanging(lost)


def _hanging(lost: TransactionalState) -> str:
    if lost.status in ENDED:
        return ""
    named = ", ".join(map(str, lost.partitions[:3])) or "its partitions"
    return f"; its transaction ({lost.status}) may stay open on {named}: {LIST_OPEN}"


def _share_group(one: LostState) -> str:
    if one.lost is None:
        return "its state had been deleted and is back"
    if one.left is None:
        return "nothing is left: the share group begins where share.auto.offset.reset says"
    back = one.back or 0
    if back <= 0:
        return "what is left is not older"
    return f"{back:,} records that were acknowledged are delivered again"


def _segment(one: LostState) -> str:
    lost, left = one.lost, one.left
    assert isinstance(lost, SegmentState | None)
    assert isinstance(left, SegmentState | None)
    offsets = ""
    for held in (lost, left):
        if held is not None and held.offsets is not None:
            offsets = f"offsets {held.offsets[0]:,} to {held.offsets[1]:,} "
            break
    if lost is not None and lost.state == COPIED:
        return (
            f"{offsets}cannot be fetched from remote storage; the objects stay there, and are "
            "never deleted: copy them before local retention removes the rest"
        )
    if lost is not None and lost.state == DELETED and left is not None:
        return f"{offsets}were deleted and are announced again: fetching them fails"
    return f"{offsets}the copy or deletion is begun again"


def _id(state: TransactionalState) -> str:
    return f"{state.producer_id} epoch {state.producer_epoch}"


def _done(position: SharePosition) -> int:
    return position.start_offset + finished_beyond(position)


_MEANINGS: dict[StateKind, Callable[[LostState], str]] = {
    StateKind.OFFSET: _offset,
    StateKind.GROUP: _group,
    StateKind.TRANSACTION: _transactional_id,
    StateKind.SHARE: _share_group,
    StateKind.SEGMENT: _segment,
}
