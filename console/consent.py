"""The operator's word: phrases passed as `--consent`, or typed when asked on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from breakglass.console.output import say
from breakglass.services.guard.consent import require_consent

Phrases = Annotated[
    list[str] | None,
    typer.Option(
        "--consent",
        metavar="PHRASE",
        help="Phrase that agrees to the change; a refusal prints it (repeatable).",
    ),
]


@dataclass(frozen=True, slots=True)
class Consent:
    """How a command gets the operator's word."""

    given: tuple[str, ...] = ()
    """The phrases of `--consent`."""
    implied: bool = False
    """The command's own flag is the consent: kafka-unclean-recovery --automated-recovery."""

    def require(self, phrases: Sequence[str]) -> Sequence[str]:
        """Return *phrases* when each of them was given, or is typed now.

        Raises:
            ConsentMissing: one of them was not given, or differs.
        """
        if not self.implied:
            for phrase in phrases:
                self._require(phrase)
        return phrases

    def _require(self, phrase: str) -> None:
        given = phrase if phrase in self.given else next(iter(self.given), None)
        if given is None and sys.stdin.isatty():
            say(f"Type {phrase!r} to confirm:")
            given = sys.stdin.readline().rstrip("\n")
        require_consent(given, phrase)
