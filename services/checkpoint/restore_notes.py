"""What is to be known of a restore besides its records: topic settings, and what was declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from breakglass.services.pipeline.restore.options import REMOVED_IN_4

if TYPE_CHECKING:
    from breakglass.services.checkpoint.spark.restoring import CheckpointPlan
    from breakglass.services.pipeline.restore.restore import TopicRestored

KEPT = "the topic that is there keeps its own"
REMOVED = "brokers of today do not have it"


@dataclass(frozen=True, slots=True)
class SettingsGiven:
    """The settings of one restored topic."""

    target: str
    settings: Mapping[str, str]
    """Its own in the end; the others are the brokers' defaults."""
    left_out: Mapping[str, str]
    """Those of the topic that was copied which it has not: why, by name."""


def settings_given(plan: CheckpointPlan) -> tuple[SettingsGiven, ...]:
    """What each topic of *plan* has in the end, and what of the copied one's it has not.

    Raises:
        StorageError: the copy cannot be read.
    """
    saved = {one.topic: one.identity().config for one in plan.copies}
    return tuple(
        given(one.target, one.settings, saved[one.topic], exists=one.exists)
        for one in plan.plan.topics
    )


def given(
    target: str, own: Mapping[str, str], saved: Mapping[str, str], *, exists: bool
) -> SettingsGiven:
    """What the topic *target* has of *saved*, where its *own* are those that it has in the end."""
    settings = {name: value for name, value in own.items() if name not in REMOVED_IN_4}
    left_out = {
        name: REMOVED if name in REMOVED_IN_4 else KEPT
        for name, value in sorted(saved.items())
        if name in REMOVED_IN_4 or (exists and settings.get(name) != value)
    }
    return SettingsGiven(target, dict(sorted(settings.items())), left_out)


def settings_told(one: SettingsGiven) -> Iterator[str]:
    """The same in words, a line each."""
    own = ", ".join(f"{name}={value}" for name, value in one.settings.items())
    yield f"{one.target}  settings: {own or 'none of its own, the brokers have them'}"
    for name, why in one.left_out.items():
        yield f"{one.target}  {name} left out: {why}"


def told_of(one: TopicRestored) -> Iterator[str]:
    """What else came of one topic, a line each; nothing where all is as it was."""
    if one.error:
        yield f"{one.target}  not restored: {one.error}"
    elif not one.settings_back:
        yield f"{one.target}  has not got its settings yet: nothing expires there"
    for what, count in one.declared.items():
        yield f"{one.target}  {count:,} records: {what}"
    for kind, count in one.differences.items():
        yield f"{one.target}  {count:,} records {kind}"
    for group, reason in one.groups_failed.items():
        yield f"{one.target}  group {group} was not moved: {reason}"
