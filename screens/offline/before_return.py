"""Saves what a broker cuts from the others when it is started and leads, before it is started.

As `breakglass rescue --before-return`: it reads from brokers and writes local files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.screens.context import Context
from breakglass.screens.offline.messages import Prepared
from breakglass.screens.offline.rescue import RescueScreen

if TYPE_CHECKING:
    from breakglass.services.incident.incident import Incident


class BeforeReturnScreen(RescueScreen):
    """Enter begins, Esc stops and then goes back."""

    TITLE = "Rescue before a return"
    ABOUT = (
        "Copies into backups on this machine what other replicas hold of offline partitions and "
        "a broker is not proved to hold: once started, it leads, and that is cut off. It changes "
        "nothing on the cluster and needs no --write."
    )

    def __init__(self, context: Context, broker: int) -> None:
        super().__init__(context, ())
        self._broker = broker

    def most_bytes(self) -> int | None:
        from breakglass.services.recovery.guarded.rescuing import BEFORE_RETURN_BYTES

        return BEFORE_RETURN_BYTES

    def prepared(self, incident: Incident, folder: Path) -> Prepared:
        from breakglass.services.recovery.rescue.spans import at_risk_of_return

        broker = self._broker
        evidence = [judged.evidence for judged in incident.assessments()]
        at_risk = [risk for one in evidence if (risk := at_risk_of_return(one, broker)) is not None]
        return Prepared.of(
            at_risk,
            0,
            folder,
            nothing=f"b{broker} cuts nothing that was read of other replicas when it returns.",
            remarks=(*_remarks(incident, broker), "Y copies the command, for another terminal"),
        )


def _remarks(incident: Incident, broker: int) -> Iterator[str]:
    """What no rescue from brokers saves, and what else speaks against the start."""
    from breakglass.services.recovery.rescue.spans import at_risk_of_return, harm_of, unread_beside

    evidence = [judged.evidence for judged in incident.assessments()]
    passed = incident.circumstances.copy_first.get(broker)
    harm = harm_of(evidence, broker)
    if harm:
        yield f"keep b{broker} down: {harm}"
    if passed is not None:
        yield passed.advice
    elif led := incident.snapshot.led_without(broker):
        plural = "s" * (led != 1)
        yield (
            f"{led:,} other partition{plural} of b{broker} are led without it: its start cuts what "
            "it alone has of them"
        )
    others = sum(at_risk_of_return(one, broker) is None for one in evidence)
    if others:
        yield (
            f"{others:,} other offline partition{'s' * (others != 1)}: b{broker} would not lead "
            "there, or cuts nothing that was read"
        )
    unread = len(incident.rows) - len(evidence)
    if unread:
        yield f"{unread:,} offline partitions are not read yet: nothing of them is saved"
    beside = sorted({other for one in evidence for other in unread_beside(one, broker)})
    for other in beside:
        yield f"b{other} could not be read: what it alone holds is not saved, and may be cut"
