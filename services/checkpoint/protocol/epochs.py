"""Checks by leader epochs that a log is still the log from which a checkpoint was cut (H10).

An unclean election truncates a log, and records written afterwards have a later epoch. So the epoch
of one record proves all records before it, even if the log has the same length again.
"""

from __future__ import annotations

from collections.abc import Iterable

from breakglass.services.model import EpochHistory, TopicPartition
from breakglass.services.topic_backup.summary import EpochStart

NEW_ID = "take a checkpoint with a new id"


def diverged(partition: TopicPartition, wanted: Iterable[EpochStart], now: EpochHistory) -> str:
    """Why the log differs from the log with the *wanted* epochs; empty if it does not differ.

    Offsets that retention has removed prove nothing, and are not reported.
    """
    reasons = (_rewritten(partition, start, now) for start in wanted)
    return next((reason for reason in reasons if reason), "")


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
