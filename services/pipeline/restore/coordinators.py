"""Says at once why the transactions of a restore would wait: their coordinators are offline.

The coordinator of a transactional id leads a partition of `__transaction_state`, and the progress
of a restore is committed to one of `__consumer_offsets`, in the same transaction. Which partitions
follows from names that contain a random id, so a partition without leader may stop any of them.
"""

from __future__ import annotations

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, Refused
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline

TRANSACTIONS, OFFSETS = "__transaction_state", "__consumer_offsets"
NAMED = 3
"""More partitions than these are counted."""


def waits_for(client: ReadClient) -> str:
    """Why transactions would wait, and what to do; empty if nothing shows that they would.

    A topic that does not exist yet is made when it is first needed. Topics that this user may not
    describe are not known to be offline.
    """
    offline: list[str] = []
    for topic in (TRANSACTIONS, OFFSETS):
        try:
            states = client.partitions([topic], Deadline.after(patience.REQUEST))
        except BreakglassError:
            continue
        offline += [str(state.partition) for state in states if state.offline]
    if not offline:
        return ""
    more = f" and {len(offline) - NAMED:,} more" if len(offline) > NAMED else ""
    have = "has" if len(offline) == 1 else "have"
    return (
        f"{', '.join(offline[:NAMED])}{more} {have} no leader, and the transactions of a restore "
        "would wait for one: recover internal topics first (breakglass triage), or restore with "
        "--no-transactions"
    )


def require_coordinators(client: ReadClient) -> None:
    """Check that transactions need not wait for a leader.

    Raises:
        Refused: a partition that they may need has none; nothing was changed.
    """
    reason = waits_for(client)
    if reason:
        raise Refused(reason)
