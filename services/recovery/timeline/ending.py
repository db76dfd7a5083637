"""How a journal ended for each partition, and what was agreed to be lost. Pure.

The word of the last step that decides is the ending; the loss is read back from the prices.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, TypedDict

from breakglass.services.guard.journal import (
    UNKNOWN,
    Details,
    JournalStep,
    JournalView,
    StepOutcome,
)
from breakglass.services.guard.steps import (
    ADD_REPLICAS,
    FORGET_LEADERS,
    FREEZE_ELECTIONS,
    PUT_SETTING_BACK,
    RESTORE_COMMAND_TOPIC,
    TAKE_CHECKPOINT,
)
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.steps import REORDER, RESCUE, RESTORE, UNDO
from breakglass.services.recovery.execution.target import RecoveryResult, Rung
from breakglass.services.recovery.group_reset import RESTORE_STEP as GROUPS_OF_RESTORE
from breakglass.services.recovery.group_reset import MoveResult

_PRICE = re.compile(r"(?P<about>~?)(?P<records>\d[\d,]{0,30})")


@dataclass(frozen=True, slots=True)
class TotalPrice:
    """The price of some partitions together."""

    records: int = 0
    """Of those whose price is known."""
    approximate: bool = False
    unknown: int = 0
    """Partitions that were agreed to at an unknown price."""
    said: int = 0
    """Partitions with a price, known or not; journals of other than elections name none."""
    abandons: tuple[int, ...] = ()
    """Brokers whose unread logs were given up, lowest id first; no price counts them."""
    unread_at_least: int = 0
    """Records known to be in none but unread logs, of the partitions where that was known."""
    unbounded: int = 0
    """Partitions of whose unread logs nothing was known."""

    def __str__(self) -> str:
        """``50``, ``~50``, ``50 + ? (2)``; ``-`` where no price was named.

        With what the price does not count: ``0, abandons b3, unread >= 20``.
        """
        if not self.said:
            return "-"
        known = f"{'~' if self.approximate else ''}{self.records:,}"
        counted = f"{known} + ? ({self.unknown:,})" if self.unknown else known
        return ", ".join(filter(None, (counted, self._uncounted())))

    def _uncounted(self) -> str:
        if not self.abandons and not self.unread_at_least:
            return ""
        named = ", ".join(f"b{broker}" for broker in self.abandons)
        return f"{f'abandons {named}, ' if named else ''}unread {self.unread_text}"

    @property
    def unread_text(self) -> str:
        """``>= 20``, ``>= 20 + ? (2)``, ``?``."""
        known = f">= {self.unread_at_least:,}"
        if not self.unbounded:
            return known
        return f"{known} + ? ({self.unbounded:,})" if self.unread_at_least else "?"


def agreed_stake(agreed: Iterable[PartitionEnding]) -> TotalPrice:
    """All that was *agreed* to, together."""
    found = tuple(agreed)
    bounds = [price.unread_at_least for price in found]
    return replace(
        stake_of(price.price for price in found),
        abandons=tuple(sorted({broker for price in found for broker in price.abandons})),
        unread_at_least=sum(bound for bound in bounds if bound is not None),
        unbounded=sum(bound is None for bound in bounds),
    )


def stake_of(prices: Iterable[object]) -> TotalPrice:
    """The sum of *prices* as journals write them: ``50``, ``~1,874``, ``unknown``."""
    records = unknown = said = 0
    approximate = False
    for price in prices:
        written = _PRICE.fullmatch(price) if isinstance(price, str) else None
        if written is not None:
            records += int(written["records"].replace(",", ""))
            approximate = approximate or written["about"] != ""
        elif price:
            unknown += 1
        said += bool(price)
    return TotalPrice(records, approximate, unknown, said)


NOTHING_SENT = "nothing sent"
"""In the plan, and no step of it was announced: refused, left out, or not come to."""
NOT_ELECTED = str(RecoveryResult.REORDERED)
ACCEPTED = "accepted"
RESTORED = "restored"
REPLICA_ADDED = "replica added"

_BESIDE = (RESCUE, RESTORE)
"""Steps that do not decide: a rescue comes before the change, an order is put back after it."""
_WORDS = {
    (REORDER, ACCEPTED): NOT_ELECTED,
    (UNDO, ACCEPTED): str(RecoveryResult.UNDONE),
    (TAKE_CHECKPOINT, "done"): "started",
    (RESTORE_COMMAND_TOPIC, "succeeded"): RESTORED,
    (FREEZE_ELECTIONS, "done"): "frozen",
    (FORGET_LEADERS, "done"): "setting changed",
    (PUT_SETTING_BACK, "done"): "put back",
    (ADD_REPLICAS, "done"): REPLICA_ADDED,
}
"""What the journal's word for a step means for its partition, where that differs."""


@dataclass(frozen=True, slots=True)
class RescuedReplica:
    """Records of one replica that were saved."""

    partition: TopicPartition
    broker: int
    records: int
    path: PurePath


@dataclass(frozen=True, slots=True)
class PartitionEnding:
    """One partition as the journal leaves it."""

    partition: TopicPartition
    result: str
    """``elected``, ``unknown``, ``refused``, ``moved``, ...; `NOTHING_SENT` without any step."""
    reason: str = ""
    leader: int | None = None
    """Who was seen to lead; else the broker that was to."""
    leader_epoch: int | None = None
    rung: str = ""
    price: str = ""
    """What was agreed to be lost, as the journal has it."""
    rescued: tuple[RescuedReplica, ...] = ()
    order_kept: bool = False
    """Its assignment was written in another order, and that was not seen to be put back."""
    abandons: tuple[int, ...] = ()
    """Brokers whose unread logs it was agreed to give up."""
    unread_at_least: int | None = 0
    """Records that were known to be in none but unread logs; None: nothing was known of that."""
    unread_source: str = ""
    """Where that bound came from."""

    @property
    def may_be_led(self) -> bool:
        """Whether the election gave the partition a leader, or may have."""
        return self.leader_epoch is not None or self.result == UNKNOWN

    @property
    def agreed(self) -> str:
        """The price with what it does not count: ``0, abandons b3, unread >= 20``."""
        return str(agreed_stake([self])) if self.price else ""


def endings_of(view: JournalView) -> tuple[PartitionEnding, ...]:
    """How it ended for each partition of *view*, in the order of its plan or requests."""
    planned = view.plan.items if view.plan is not None else {}
    steps: dict[TopicPartition, list[JournalStep]] = {partition: [] for partition in planned}
    for step in view.steps:
        for partition in step.items:
            steps.setdefault(partition, []).append(step)
    return tuple(
        _ending(partition, planned.get(partition, {}), held) for partition, held in steps.items()
    )


def result_of(step: JournalStep, partition: TopicPartition) -> StepOutcome:
    """What became of *step* for *partition*; `UNKNOWN` as long as nobody knows."""
    return step.outcomes.get(partition) or StepOutcome(UNKNOWN, {"reason": "no answer was noted"})


def _ending(
    partition: TopicPartition, planned: Details, steps: Sequence[JournalStep]
) -> PartitionEnding:
    price, rescued = str(planned.get("price", "")), _rescued(partition, steps)
    deciding = [step for step in steps if _decides(step, partition)]
    if not deciding:
        # Why nothing was sent, as far as the journal says: its rescue failed.
        rescues = [result_of(step, partition) for step in steps if step.name == RESCUE]
        why = str(rescues[-1].details.get("reason") or "") if rescues else ""
        return PartitionEnding(
            partition, NOTHING_SENT, why, price=price, rescued=rescued, **_unread(planned)
        )
    last = deciding[-1]
    outcome = result_of(last, partition)
    told = outcome.details
    seen, designee = _number(told.get("leader")), _number(last.items[partition].get("designee"))
    return PartitionEnding(
        partition,
        _WORDS.get((last.name, outcome.result), outcome.result),
        str(told.get("reason") or ""),
        designee if seen is None else seen,
        _number(told.get("leader_epoch")),
        # Older journals call the first rung elected.
        str(told.get("rung") or "").replace("elected", str(Rung.ANNOUNCED)),
        price,
        rescued,
        _order_kept(partition, steps),
        **_unread(planned),
    )


class _Unread(TypedDict):
    """What of an ending is said of unread logs."""

    abandons: tuple[int, ...]
    unread_at_least: int | None
    unread_source: str


def _unread(planned: Details) -> _Unread:
    listed = planned.get("abandons")
    brokers = listed if isinstance(listed, list | tuple) else ()
    return {
        "abandons": tuple([broker for broker in brokers if isinstance(broker, int)]),
        "unread_at_least": _number(planned.get("unread_at_least", 0)),
        "unread_source": str(planned.get("unread_source") or ""),
    }


def _decides(step: JournalStep, partition: TopicPartition) -> bool:
    """Whether the step decides the ending: a restore does, unless a group was not moved."""
    if step.name == GROUPS_OF_RESTORE:
        return result_of(step, partition).result != MoveResult.MOVED
    return step.name not in _BESIDE


def _rescued(partition: TopicPartition, steps: Sequence[JournalStep]) -> tuple[RescuedReplica, ...]:
    """What the journal says was saved; malformed entries of a foreign hand are left out."""
    places: list[RescuedReplica | None] = []
    for step in steps:
        if step.name == RESCUE and partition in step.outcomes:
            saved = step.outcomes[partition].details.get("saved")
            listed = saved if isinstance(saved, list) else ()
            places += [_place(partition, place) for place in listed]
    return tuple(place for place in places if place is not None)


def _place(partition: TopicPartition, saved: Any) -> RescuedReplica | None:
    try:
        broker, records = int(saved["broker"]), int(saved["records"])
        return RescuedReplica(partition, broker, records, PurePath(str(saved["path"])))
    except (KeyError, TypeError, ValueError):
        return None


def _order_kept(partition: TopicPartition, steps: Sequence[JournalStep]) -> bool:
    """Whether another order may still stand."""
    kept = False
    for step in steps:
        item, result = step.items[partition], result_of(step, partition).result
        if step.name == REORDER:
            same = item.get("order") == item.get("assignment")
            kept = kept or (not same and result in (ACCEPTED, UNKNOWN))
        elif step.name in (RESTORE, UNDO) and result == ACCEPTED:
            kept = False
    return kept


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None
