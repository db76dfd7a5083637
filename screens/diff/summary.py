"""The sentences over the list: which two are compared, and how they differ."""

from __future__ import annotations

from breakglass.screens.diff.sheet import Titles
from breakglass.services.divergence.align import PairKind
from breakglass.services.divergence.hunks import HunkTotals
from breakglass.services.divergence.replicas import Facing
from breakglass.services.model import ReplicaLog, Unknown
from breakglass.services.words.figures import count, epochs_text


def side_title(log: ReplicaLog, *, best: bool, brief: bool = False) -> str:
    """``b1 best  0..125  epochs 0 2``; *brief*: without the epochs."""
    title = f"b{log.broker}{' best' if best else ''}  {count(log.log_start)}..{count(log.log_end)}"
    return title if brief else f"{title}  epochs {epochs_text(log.epochs)}"


def titles_of(facing: Facing, best: int | None) -> Titles:
    """What stands over the two sides."""
    return Titles(
        *(
            side_title(log, best=log.broker == best, brief=brief)
            for brief in (False, True)
            for log in (facing.left, facing.right)
        )
    )


def counted_from(facing: Facing) -> int:
    """The offset that differences are counted from: below it the two are known to be the same."""
    if facing.proven_same is not None and facing.proven_same.start == facing.extent.start:
        return facing.proven_same.end
    return facing.extent.start


def prefix_text(facing: Facing) -> str:
    """What the epochs tell of the front of both logs."""
    at, proven = facing.divergence, facing.proven_same
    if isinstance(at, Unknown):
        return f"Where they diverge is not known ({at.reason}): read and compare."
    if proven is not None:
        since = "" if proven.start == facing.extent.start else f" from {proven.start:,}"
        return f"Same{since} up to {at:,}, by epochs."
    if facing.compacted is not False:
        return f"They diverge at {at:,} by their epochs; each may have been compacted for itself."
    return f"They have no offset in common before {at:,}."


def totals_text(facing: Facing, totals: HunkTotals | None) -> str:
    """What differs, with its sign in the list: ``! 25 offsets hold different records, ...``."""
    start = counted_from(facing)
    where = "Then" if start == facing.divergence else f"From {start:,} on"
    if totals is None:
        return f"{where} nothing is counted yet: c counts."
    kinds = totals.kinds
    parts = [
        different_text(kinds[PairKind.DIFFERENT]),
        f"< {kinds[PairKind.LEFT]:,} only on b{facing.left.broker}",
        f"> {kinds[PairKind.RIGHT]:,} only on b{facing.right.broker}",
    ]
    parts += [f"= {kinds[PairKind.EQUAL]:,} the same"] if kinds[PairKind.EQUAL] else []
    parts += [f"? {kinds[PairKind.UNREAD]:,} not known"] if kinds[PairKind.UNREAD] else []
    return f"{where} {', '.join(parts)}."


def different_text(offsets: int) -> str:
    """``! 25 offsets hold different records``."""
    return f"! {offsets:,} offset{' holds' if offsets == 1 else 's hold'} different records"
