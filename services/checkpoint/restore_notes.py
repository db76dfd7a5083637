"""Notes on a restore besides its records: topic settings, and what differs from the copy."""

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
    """The topic's own settings after the restore; all other settings are the brokers' defaults."""
    left_out: Mapping[str, str]
    """Settings of the copied topic that the restored topic lacks: the reason by name."""


def settings_given(plan: CheckpointPlan) -> tuple[SettingsGiven, ...]:
    """The settings of each topic of *plan* after the restore, and the settings that it lacks.

    Raises:
        StorageError: the copy cannot be read.
    """
    saved = {copy.topic: copy.identity().config for copy in plan.copies}
    return tuple(
        given(topic.target, topic.settings, saved[topic.topic], exists=topic.exists)
        for topic in plan.plan.topics
    )


def given(
    target: str, own: Mapping[str, str], saved: Mapping[str, str], *, exists: bool
) -> SettingsGiven:
    """The settings that *target* has from *saved*; *own* are its settings after the restore."""
    settings = {name: value for name, value in own.items() if name not in REMOVED_IN_4}
    left_out = {
        name: REMOVED if name in REMOVED_IN_4 else KEPT
        for name, value in sorted(saved.items())
        if name in REMOVED_IN_4 or (exists and settings.get(name) != value)
    }
    return SettingsGiven(target, dict(sorted(settings.items())), left_out)


def settings_told(one: SettingsGiven) -> Iterator[str]:
    """The settings as text, one line each."""
    own = ", ".join(f"{name}={value}" for name, value in one.settings.items())
    yield f"{one.target}  settings: {own or 'none of its own, the brokers have them'}"
    for name, why in one.left_out.items():
        yield f"{one.target}  {name} left out: {why}"


def told_of(one: TopicRestored) -> Iterator[str]:
    """Errors, differences and other remarks on one topic, one line each; empty if none."""
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
