"""Temporary changes of topic settings, as journals keep them until they are put back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from breakglass.services.guard.act import SUCCEEDED, TargetResult
from breakglass.services.guard.journal import list_journals
from breakglass.services.guard.journal_view import UNKNOWN, JournalStep, JournalView
from breakglass.services.guard.steps import FORGET_LEADERS, HOLD_ELECTIONS, PUT_SETTING_BACK
from breakglass.services.kafka.cluster.settings import MIN_ISR, UNCLEAN_ELECTION
from breakglass.services.words.inert import inert

CHANGING = (HOLD_ELECTIONS, FORGET_LEADERS)


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting of one topic: the topic's own value before, and the value written."""

    topic: str
    topic_id: str
    name: str
    before: str | None
    """None: the topic had no value of its own, so the written value is removed again."""
    written: str | None
    """None: the topic's own value was temporarily removed."""

    @property
    def key(self) -> tuple[str, str]:
        return self.topic, self.name

    @property
    def back(self) -> str:
        """How the change is put back, in words."""
        if self.before is None:
            return f"{self.name} is taken from the topic again: it had none of its own"
        return f"{self.name}={self.before} is set again"


def journalled(changes: Iterable[SettingChange]) -> list[dict[str, Any]]:
    """*changes* as a journal's request has them: all that is needed to put them back."""
    return [asdict(change) for change in changes]


def owed(view: JournalView) -> tuple[SettingChange, ...]:
    """The changes that *view* made, or may have made, and has not put back, in order of topics.

    Empty if the journal ended with success: a value left then was set by another operator.
    """
    if view.result == SUCCEEDED:
        return ()
    found: dict[tuple[str, str], SettingChange] = {}
    for step in view.steps:
        for change in _changes(step):
            # The result of step for topic; `UNKNOWN` if the step has no answer.
            told = (
                outcome.result
                for partition, outcome in step.outcomes.items()
                if partition.topic == change.topic
            )
            result = next(told, UNKNOWN)
            if step.name in CHANGING and result in (TargetResult.DONE, UNKNOWN):
                found[change.key] = change
            elif step.name == PUT_SETTING_BACK and result == TargetResult.DONE:
                found.pop(change.key, None)
    return tuple(found[key] for key in sorted(found))


def owing_journals(cluster_id: str, folder: Path | None = None) -> list[JournalView]:
    """Journals of that cluster that have a setting to put back, newest first."""
    journals = list_journals(cluster_id, folder)
    return [view for view in journals if isinstance(view, JournalView) and owed(view)]


def topics_text(topics: Iterable[str]) -> str:
    """``carts``; ``3 topics``."""
    named = sorted(set(topics))
    return inert(named[0]) if len(named) == 1 else f"{len(named):,} topics"


def _changes(step: JournalStep) -> Iterator[SettingChange]:
    """The changes of *step*; malformed entries of a foreign journal are left out."""
    listed = step.request.payload.get("settings")
    for entry in listed if isinstance(listed, list) else ():
        if not isinstance(entry, dict):
            continue
        texts = [entry.get(name) for name in ("topic", "topic_id", "name")]
        values = [entry.get(name) for name in ("before", "written")]
        named = all(isinstance(text, str) for text in texts) and texts[2] in (
            MIN_ISR,
            UNCLEAN_ELECTION,
        )
        if named and all(value is None or isinstance(value, str) for value in values):
            yield SettingChange(*map(str, texts), *values)
