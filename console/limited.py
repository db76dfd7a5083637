"""The console where it may not do everything: actions that are on a list run, others are answered.

A new key of a screen is off there until somebody adds its action to the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual.binding import ActiveBinding
from textual.dom import DOMNode
from typing_extensions import override

from breakglass.console.app import BreakglassApp
from breakglass.screens.page import FilterField


class LimitedConsole(BreakglassApp):
    """A console that runs the actions of *OFFERED* and those of Textual's own widgets."""

    OFFERED: ClassVar[frozenset[str]]

    def offers(self, target: DOMNode, name: str, parameters: tuple[object, ...]) -> bool:
        del parameters
        # A field that is typed into, a list that scrolls.
        of_textual = type(target).__module__.startswith("textual.")
        return of_textual or isinstance(target, FilterField) or name in self.OFFERED

    @override
    def offers_key(self, active: ActiveBinding) -> bool:
        target, name, parameters = self._parse_action(active.binding.action, active.node)
        return self.offers(target, name, parameters)

    def decline(self) -> None:
        raise NotImplementedError

    @override
    async def run_action(
        self,
        action: Any,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        target, name, parameters = self._parse_action(action, default_namespace or self, namespaces)
        if self.offers(target, name, parameters):
            return await super().run_action(action, default_namespace, namespaces)
        self.decline()
        return True
