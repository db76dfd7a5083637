"""Whether a log is still the one that a checkpoint was cut from, by its leader epochs (H10).

What an unclean election cuts off is cut to the log's end, and what is written there afterwards is
of a later epoch. So the epoch of one record vouches for everything before it, even where the log
has the same length again.
"""

from __future__ import annotations

from collections.abc import Iterable

from breakglass.services.model import EpochHistory, TopicPartition
from breakglass.services.topic_backup.summary import EpochStart

NEW_ID = "take a checkpoint with a new id"


def diverged(partition: TopicPartition, wanted: Iterable[EpochStart], now: EpochHistory) -> str:
    """Why the log is another one than records of *wanted* were read from; empty where it is not.

    What retention has removed since tells nothing, and is no reason.
    """
    reasons = (_rewritten(partition, one, now) for one in wanted)
    return next((one for one in reasons if one), "")


def _rewritten(partition: TopicPartition, one: EpochStart, now: EpochHistory) -> str:
    found = now.epoch_at(one.offset)
    if one.offset < now.complete_from or found == one.epoch:
        return ""
    later = [held for held in now.ranges if held.epoch > one.epoch]
    if found is None:
        end = now.ranges[-1].end if now.ranges else now.complete_from
        is_now = f"is gone: the log ends at {end} in epoch {now.last_written}"
    else:
        is_now = f"is of epoch {found} now"
        end = later[0].start if later else one.offset
    return (
        f"leader epoch diverged: offset {one.offset} of {partition} was of epoch {one.epoch} when "
        f"the checkpoint was cut and {is_now}; an unclean election cut the log at {end}: {NEW_ID}"
    )
