"""What the replicas of one partition hold, and what its election cuts off each, a line each."""

from __future__ import annotations

from collections.abc import Iterator

from breakglass.services.model import ReplicaLog, Unknown, known
from breakglass.services.recovery.guarded.election_quote import Priced
from breakglass.services.recovery.judgement.loss import Loss, ReplicaLoss, loss_of
from breakglass.services.words.figures import count, epochs_text


def evidence_told(one: Priced) -> Iterator[str]:
    """The designee first."""
    designee = one.target.designee
    loss = loss_of(one.evidence, designee)
    replicas = sorted(one.evidence.replicas, key=lambda held: held.broker != designee)
    for replica in replicas:
        yield _told(replica, designee, loss)


def _told(replica: ReplicaLog, designee: int, loss: Loss) -> str:
    name = f"b{replica.broker} {replica.role.value}"
    if isinstance(replica.log_end, Unknown):
        return f"{name}  ?: {replica.log_end.reason}"
    held = f"{count(replica.log_start)} to {count(replica.log_end)}"
    figures = f"{held}  HW {count(replica.high_watermark)}  epochs {epochs_text(replica.epochs)}"
    if replica.broker == designee:
        return f"{name}  {figures}  is elected"
    return f"{name}  {figures}  {_dropped(loss.of(replica.broker), designee)}"


def _dropped(lost: ReplicaLoss | None, designee: int) -> str:
    if lost is None:
        return "was not compared"
    parts = [_tail(lost)] if lost.tail != 0 else []
    if lost.head != 0:
        parts.append(f"{count(lost.head)} before b{designee} starts")
    return f"loses {' and '.join(parts)}" if parts else f"adds nothing to b{designee}"


def _tail(lost: ReplicaLoss) -> str:
    where = f" past {lost.divergence:,}" if known(lost.divergence) else ""
    return f"{count(lost.tail)}{where}"
