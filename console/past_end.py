"""Consumer groups that committed past the end of what is left: told before and after (R19)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from breakglass.console.output import say

if TYPE_CHECKING:
    from breakglass.services.model import PartitionEvidence, TopicPartition
    from breakglass.services.recovery.execution.target import ElectionTarget
    from breakglass.services.recovery.guarded.aftermath import GroupPastEnd


def past_end(
    targets: Iterable[ElectionTarget], evidence: Mapping[TopicPartition, PartitionEvidence]
) -> tuple[GroupPastEnd, ...]:
    """Groups that the elections of *targets* leave with a committed offset past the end."""
    from breakglass.services.recovery.guarded.aftermath import groups_past_end

    chosen = list(targets)
    committed = {one.partition: evidence[one.partition].group_offsets for one in chosen}
    return groups_past_end(chosen, committed)


def say_past_end(found: Iterable[GroupPastEnd], moment: str) -> None:
    """One line for each group, saying that it meets OFFSET_OUT_OF_RANGE at *moment*."""
    by_group: dict[str, list[GroupPastEnd]] = {}
    for one in found:
        by_group.setdefault(one.group, []).append(one)
    for group, held in by_group.items():
        first = held[0]
        more = f" (and past {len(held) - 1:,} more)" if len(held) > 1 else ""
        say(
            f"group {group}: committed {first.committed:,} on {first.partition}, whose log ends at "
            f"{first.log_end:,}{more}: {moment} it meets OFFSET_OUT_OF_RANGE and starts where its "
            "auto.offset.reset says; `breakglass groups reset` puts it to the end"
        )
