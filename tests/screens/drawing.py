"""Screens as text that a reviewer can read: what is drawn, and below it how each cell looks.

A snapshot is a file under `__snapshots__`; `make test ARGS="tests/screens --snapshot-update"`
writes them anew, and the difference is to be read like any other.
"""

import string
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from textual.app import App
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widgets import Input, TextArea

from tests.screens.turns import rests, strips

SIZES = ((80, 24), (120, 40))
PLAIN = "."
LETTERS = string.ascii_letters + string.digits + string.punctuation.replace(PLAIN, "")


class Look(NamedTuple):
    """What a screen is drawn in: the theme's name, and columns and rows."""

    theme: str
    size: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.theme.removeprefix('breakglass-')}-{self.size[0]}x{self.size[1]}"


LOOKS = [
    pytest.param(look, id=str(look)) for look in (Look("breakglass-dark", size) for size in SIZES)
]
"""Every screen is to be seen in each: `@pytest.mark.parametrize("look", LOOKS)`."""
POOR_LOOKS = [
    pytest.param(look, id=str(look))
    for look in (Look(f"breakglass-{theme}", SIZES[0]) for theme in ("ansi-dark", "monochrome"))
]
"""Of terminals with few colours, or none: one rich screen is to be seen in each."""

Drawn = Callable[[App[Any]], None]
DrawnInSizes = Callable[..., Awaitable[None]]


def stopped_clock() -> float:
    """The clock of a console that is drawn: no age differs from one run to the next."""
    return 0.0


class TextFile(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "txt"


@pytest.fixture
def kept(snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch) -> SnapshotAssertion:
    for widget in (Input, TextArea):
        monkeypatch.setattr(widget.cursor_blink, "_default", False)
    return snapshot.use_extension(TextFile)


@pytest.fixture
def drawn_as_before(kept: SnapshotAssertion) -> Drawn:
    """Compares what an app shows with the snapshot of this test; call it when all is drawn."""

    def compare(app: App[Any]) -> None:
        assert drawing(app) == kept

    return compare


@pytest.fixture
def sizes_as_before(kept: SnapshotAssertion) -> DrawnInSizes:
    """Compares what an app shows in each of `SIZES` with a snapshot, of one *view* if named."""

    async def compare(pilot: Pilot[Any], view: str = "") -> None:
        for size in SIZES:
            await pilot.resize_terminal(*size)
            await at_rest(pilot)
            look = Look(pilot.app.theme, size)
            assert drawing(pilot.app) == kept(name=f"{look}-{view}" if view else str(look))

    return compare


async def at_rest(pilot: Pilot[Any]) -> None:
    for _ in range(3):
        await rests(pilot)


def drawing(app: App[Any]) -> str:
    """Return what *app* shows, line by line, then a letter for each cell's style, and a legend."""
    drawn = [_cells(strip) for strip in strips(app)]
    counted = Counter(style for strip in drawn for _, style in strip)
    letters = dict.fromkeys(style for strip in drawn for _, style in strip)
    plain = counted.most_common(1)[0][0]
    del letters[plain]
    named = {plain: PLAIN} | dict(zip(letters, LETTERS, strict=False))
    return "\n".join(
        [
            f"{app.theme}, {app.size.width} x {app.size.height}",
            *(f"|{''.join(text for text, _ in strip)}|" for strip in drawn),
            "",
            *(
                f"|{''.join(named[style] * cell_len(text) for text, style in strip)}|"
                for strip in drawn
            ),
            "",
            *(f"{letter} {style}" for style, letter in named.items()),
            "",
        ]
    )


def _cells(strip: Strip) -> list[tuple[str, str]]:
    return [
        (character, words)
        for text, style, _ in Segment.simplify(strip)
        for words in (_words(style),)
        for character in text
    ]


@lru_cache(maxsize=1000)
def _words(style: Style | None) -> str:
    """How *style* looks, without the links and marks that are no part of it."""
    if style is None:
        return "none"
    return " ".join(_parts(style))


def _parts(style: Style) -> Iterator[str]:
    for name in ("bold", "dim", "italic", "underline", "reverse", "strike"):
        if getattr(style, name):
            yield name
    yield "default" if style.color is None else style.color.name
    yield f"on {'default' if style.bgcolor is None else style.bgcolor.name}"
