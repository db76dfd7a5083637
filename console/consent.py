"""The operator's word: phrases passed as `--consent`, or typed when asked on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from breakglass.console.output import say
from breakglass.services.guard.consent import ConsentPhrase, require_consent, require_phrases

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

        Raises ConsentMissing: one of them was not given, or differs.
        """
        if self.implied:
            return phrases
        given = list(self.given)
        if not given and sys.stdin.isatty():
            for phrase in phrases:
                say(f"Type {phrase!r} to confirm:")
                given.append(sys.stdin.readline().rstrip("\n"))
                require_consent(given[-1], phrase)
        require_phrases(given, [ConsentPhrase(phrase) for phrase in phrases])
        return phrases
