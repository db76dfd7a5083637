"""What commands say of guarded changes of topic settings: evidence, results, and the exit code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.console.exits import FAILED
from breakglass.console.guarded import say_event
from breakglass.console.output import say
from breakglass.services.errors import OutcomeUnknown
from breakglass.services.guard.act import JournalOpened, TargetOutcome, TargetResult
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.services.guard.act import ActEvent, Ending


def say_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Say what a consent rests on."""
    for label, told in facts:
        say(f"{label}: {told}")


@dataclass(slots=True)
class Outcomes:
    """Hears an act; prints the result of each topic, on stderr where it is no success."""

    quiet: bool = False
    """stdout is kept for a document."""
    told: list[TargetOutcome] = field(default_factory=list)
    journal: Path | None = None

    def __call__(self, event: ActEvent) -> None:
        if isinstance(event, JournalOpened):
            self.journal = event.path
        if not isinstance(event, TargetOutcome):
            say_event(event)
            return
        self.told.append(event)
        line = f"{event.target}  {event.result}: {event.text}"
        if event.result is TargetResult.DONE and not self.quiet:
            print(inert(line), flush=True)
        else:
            say(line)

    @property
    def documents(self) -> list[dict[str, object]]:
        return [
            {"topic": outcome.target, "result": outcome.result, "reason": outcome.text}
            for outcome in self.told
        ]

    def ended(self, ending: Ending) -> int:
        if ending.text:
            say(ending.text)
        results = {outcome.result for outcome in self.told}
        if TargetResult.UNKNOWN in results:
            return OutcomeUnknown.exit_code
        return FAILED if TargetResult.FAILED in results else 0
