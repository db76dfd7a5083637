"""The console's styles, parsed once: Textual parses all of them again for each new screen."""

from __future__ import annotations

from functools import lru_cache

from textual.cache import LRUCache
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from typing_extensions import override

THEMES = 8
"""Of so many themes, the latest, what was parsed is kept: each has variables of its own."""
SOURCES = 256
"""More than there are kinds of widgets, each of which has one."""

Parsed = LRUCache[tuple[object, ...], list[RuleSet]]


class KeptStylesheet(Stylesheet):
    """Parses a source once for each theme, whatever screens are opened and themes tried."""

    def __init__(self, *, variables: dict[str, str] | None = None) -> None:
        super().__init__(variables=variables)
        self._parse_cache = _parsed_with(frozenset(self._variables.items()))

    @override
    def set_variables(self, variables: dict[str, str]) -> None:
        if variables == self._variables:
            return
        # What is emptied now would be that of the theme before.
        self._parse_cache = LRUCache(1)
        super().set_variables(variables)
        self._parse_cache = _parsed_with(frozenset(variables.items()))

    @override
    def reparse(self) -> None:
        self.parse()


@lru_cache(maxsize=THEMES)
def _parsed_with(variables: frozenset[tuple[str, str]]) -> Parsed:  # noqa: ARG001 - kept by it
    """What was parsed with these *variables*, by source."""
    return LRUCache(SOURCES)
