"""The console's page names every key of the screens that an incident needs; `?` has all of them."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen

from breakglass import screens
from breakglass.console.app import BreakglassApp
from breakglass.screens.widgets.line_table import LineTable

DOCS = Path(__file__).parents[2] / "docs"
EVERYWHERE = "console.md#keys-on-every-screen"
PAGES: dict[str, str | None] = {
    "breakglass.screens.overview": None,
    "breakglass.screens.offline": "console.md#offline-partitions",
    "breakglass.screens.plan": None,
    "breakglass.screens.elect": "console.md#elect",
    "breakglass.screens.diff": None,
    "breakglass.screens.journal": None,
    "breakglass.screens.backups": None,
    "breakglass.screens.metastore": None,
    "breakglass.screens.checkpoints": None,
    "breakglass.screens.quorum": None,
    "breakglass.screens.browse": None,
    "breakglass.screens.widgets.consent": "console.md#elect",
    "breakglass.screens.widgets.dialog": None,
}
"""By package: the page with its keys, or a section of one; None: `?` alone has them.

All others are in `EVERYWHERE`.
"""
NAMES = {
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "asterisk": "*",
    "exclamation_mark": "!",
    "plus": "+",
    "equals_sign": "=",
    "minus": "-",
    "escape": "Esc",
    "enter": "Enter",
    "space": "Space",
    "tab": "Tab",
    "backspace": "Backspace",
    "home": "Home",
    "end": "End",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
}
"""How keys are written that are no character, or whose name is not their character."""


def bindings_of(owner: type[DOMNode]) -> list[Binding]:
    """What *owner* itself binds, a key at a time."""
    return list(Binding.make_bindings(vars(owner).get("BINDINGS", ())))


def owners() -> Iterator[type[DOMNode]]:
    """Everything of the console that binds keys, Textual's own app and screen included."""
    yield from (App, Screen, BreakglassApp)
    for found in walk_packages(screens.__path__, "breakglass.screens."):
        for var in vars(import_module(found.name)).values():
            ours = isinstance(var, type) and var.__module__ == found.name
            if ours and issubclass(var, DOMNode) and bindings_of(var):
                yield var


def page_of(owner: type[DOMNode]) -> str | None:
    """The page that has the keys of *owner*."""
    place = owner.__module__
    return next((page for name, page in PAGES.items() if place.startswith(name)), EVERYWHERE)


def written(key: str) -> str:
    """*key* as pages write it."""
    return NAMES.get(key, key)


def keys_listed(page: str) -> set[str]:
    """The keys in the first column of the tables of *page* that are headed ``Key``."""
    name, _, anchor = page.partition("#")
    text = (DOCS / name).read_text(encoding="utf-8")
    sections = text.split("\n## ")
    if anchor:
        heading = anchor.replace("-", " ")
        (text,) = (one for one in sections if one.splitlines()[0].lower() == heading)
    tables = re.findall(r"^\| Key \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = "".join(tables).splitlines()
    return {key for row in rows for key in re.findall(r"`([^`]+)`", row.split(" | ")[0])}


ALL_KEYS = {written(binding.key) for owner in owners() for binding in bindings_of(owner)}
IN_EVERY_LIST = {(binding.key, binding.description) for binding in bindings_of(LineTable)}
"""These mean the same in every list that has them, and are told of once."""


def keys_bound(page: str) -> set[str]:
    """The keys that *page* must have."""
    return {
        written(binding.key)
        for owner in owners()
        if page_of(owner) == page
        for binding in bindings_of(owner)
        if page == EVERYWHERE or (binding.key, binding.description) not in IN_EVERY_LIST
    } - {"super+c"}


@pytest.mark.parametrize("page", sorted({EVERYWHERE, *filter(None, PAGES.values())}))
def test_a_page_has_every_key_of_its_screen_and_no_other(page: str) -> None:
    in_lists = {written(key) for key, _ in IN_EVERY_LIST}
    assert keys_bound(page) - keys_listed(page) == set()
    assert keys_listed(page) - keys_bound(page) - keys_bound(EVERYWHERE) - in_lists == set()


def test_no_letter_is_bound_that_an_arrow_in_pieces_would_press() -> None:
    assert not {"[", "left_square_bracket", *"ABCD"} & ALL_KEYS
