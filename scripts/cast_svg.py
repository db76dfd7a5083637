"""Draw a recording of a terminal (asciinema's cast, version 2) as an SVG that moves by itself.

The SVG has shapes and a style sheet alone: no script, no font, nothing of another host. Each row
that was ever shown is drawn once; a frame is a list of rows; CSS moves the film frame by frame. A
reader who wants no motion is shown one frame.

``python -m scripts.cast_svg`` draws docs/images/demo.cast; ``--check`` says whether it is drawn.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

import pyte

from tests.terminal.pty_terminal import UNDRAWN

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
CAST, SVG = IMAGES / "demo.cast", IMAGES / "demo.svg"
CELL_WIDTH, CELL_HEIGHT, BASELINE, MARGIN = 8.4, 18.0, 13.5, 12.0
LEAST_SECONDS, LAST_SECONDS = 0.08, 4.0
"""How long a frame is shown at least, and the last one before the film begins again."""
FONT = "ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace"
PLAIN, PAPER = "#d7dde4", "#101418"
NAMES = {
    "black": "#1c1c1c",
    "red": "#d75f5f",
    "green": "#87af5f",
    "brown": "#d7af5f",
    "blue": "#5f87d7",
    "magenta": "#af87d7",
    "cyan": "#5fafaf",
    "white": "#d0d0d0",
    "brightblack": "#767676",
    "brightred": "#ff8787",
    "brightgreen": "#afd787",
    "brightbrown": "#ffd787",
    "brightblue": "#87afff",
    "brightmagenta": "#d7afff",
    "brightcyan": "#87d7d7",
    "brightwhite": "#ffffff",
}
"""pyte's names of the sixteen colours."""

_SWITCH = re.compile(r"\x1b\[\?1049([hl])")
Row = tuple[Any, ...]
"""The cells of a row, as pyte has them."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What the terminal shows from a moment on, in seconds from the beginning."""

    at: float
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """A recording: its size in cells, and what the program wrote when."""

    columns: int
    lines: int
    written: tuple[tuple[float, str], ...]

    @classmethod
    def read(cls, text: str) -> Cast:
        """Take apart the JSON lines of a cast."""
        header, *events = map(json.loads, text.splitlines())
        written = tuple((at, data) for at, kind, data in events if kind == "o")
        return cls(header["width"], header["height"], written)


class TwoScreens:
    """A terminal with the second screen that full-screen programs draw on; pyte knows the first."""

    def __init__(self, columns: int, lines: int) -> None:
        self._columns, self._lines = columns, lines
        self._first = self._shown = self._opened()

    def _opened(self) -> tuple[pyte.Screen, pyte.ByteStream]:
        screen = pyte.Screen(self._columns, self._lines)
        return screen, pyte.ByteStream(screen)

    def feed(self, data: str) -> None:
        """Draw what was written."""
        for part in _SWITCH.split(data):
            if part == "h":
                self._shown = self._opened()
            elif part == "l":
                self._shown = self._first
            else:
                self._shown[1].feed(UNDRAWN.sub(b"", part.encode()))

    @property
    def rows(self) -> tuple[Row, ...]:
        """The cells of each line."""
        cells = self._shown[0].buffer
        return tuple(
            tuple(cells[line][column] for column in range(self._columns))
            for line in range(self._lines)
        )


def frames(cast: Cast) -> Iterator[Frame]:
    """What is seen: frames that last, each different from the one before."""
    terminal = TwoScreens(cast.columns, cast.lines)
    before: tuple[Row, ...] = ()
    moments = [at for at, _ in cast.written[1:]]
    for (at, data), following in zip(
        cast.written, [*moments, at_end(cast) + LAST_SECONDS], strict=True
    ):
        terminal.feed(data)
        if following - at < LEAST_SECONDS:
            continue
        rows = terminal.rows
        if rows != before:
            yield Frame(at, rows)
            before = rows


def at_end(cast: Cast) -> float:
    """The moment of the last writing."""
    return cast.written[-1][0]


def drawn(cast: Cast, poster: float = 0.2) -> str:
    """The SVG of *cast*; without motion it shows the frame at that part of its time."""
    film = list(frames(cast))
    total = at_end(cast) + LAST_SECONDS
    width = cast.columns * CELL_WIDTH + 2 * MARGIN
    height = cast.lines * CELL_HEIGHT + 2 * MARGIN
    known: dict[Row, str] = {}
    places = []
    for number, frame in enumerate(film):
        top = number * height + MARGIN
        for line, row in enumerate(frame.rows):
            name = known.setdefault(row, f"r{len(known)}")
            if any(_shows(cell) for cell in row):
                places.append(f'<use href="#{name}" y="{top + line * CELL_HEIGHT:g}"/>')
    shown = max((at for at, frame in enumerate(film) if frame.at <= poster * total), default=0)
    steps = "".join(
        f"{100 * frame.at / total:.3f}%{{transform:translateY({-number * height:g}px)}}"
        for number, frame in enumerate(film)
    )
    inks = Inks()
    rows = "".join(f'<g id="{name}">{_row(row, inks)}</g>' for row, name in known.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" font-family="{FONT}" font-size="14">\n'
        f"<style>text{{white-space:pre;fill:{PLAIN}}}.b{{font-weight:bold}}.i{{font-style:italic}}"
        f".u{{text-decoration:underline}}{inks.sheet}@keyframes film{{{steps}}}"
        f".film{{animation:film {total:.2f}s steps(1,end) infinite}}"
        "@media (prefers-reduced-motion:reduce){.film{animation:none;"
        f"transform:translateY({-shown * height:g}px)}}}}</style>\n"
        f'<defs>{rows}</defs>\n<rect width="100%" height="100%" rx="6" fill="{PAPER}"/>\n'
        f'<g class="film" transform="translate(0 0)">{"".join(places)}</g>\n</svg>\n'
    )


def _shows(cell: Any) -> bool:
    return bool(cell.data != " " or cell.bg != "default" or cell.reverse or cell.underscore)


def _colours(cell: Any) -> tuple[str, str]:
    """Of the letter and of what is under it."""
    letter = PLAIN if cell.fg == "default" else NAMES.get(cell.fg, f"#{cell.fg}")
    under = PAPER if cell.bg == "default" else NAMES.get(cell.bg, f"#{cell.bg}")
    return (under, letter) if cell.reverse else (letter, under)


class Inks:
    """The colours that were used, each with the name of its class."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def name(self, colour: str) -> str:
        """The class that fills with *colour*."""
        return self._names.setdefault(colour, f"c{len(self._names)}")

    @property
    def sheet(self) -> str:
        """The rules of all of them."""
        return "".join(f".{name}{{fill:{colour}}}" for colour, name in self._names.items())


def _row(row: Row, inks: Inks) -> str:
    return "".join((*_papers(row, inks), *_letters(row, inks)))


def _papers(row: Row, inks: Inks) -> Iterator[str]:
    """What is under the letters, where it is another colour than the whole terminal's."""
    column = 0
    for under, run in groupby(row, lambda cell: _colours(cell)[1]):
        count = len(list(run))
        if under != PAPER:
            yield (
                f'<rect x="{_x(column)}" width="{count * CELL_WIDTH:.1f}" '
                f'height="{CELL_HEIGHT:g}" class="{inks.name(under)}"/>'
            )
        column += count


def _letters(row: Row, inks: Inks) -> Iterator[str]:
    column = 0
    for (letter, looks), run in groupby(row, _look):
        cells = list(run)
        text = "".join(cell.data for cell in cells)
        # Spaces are seen only where they are underlined.
        shown = text if "u" in looks else text.rstrip()
        if shown:
            names = looks if letter == PLAIN else (*looks, inks.name(letter))
            kind = f' class="{" ".join(names)}"' if names else ""
            # Cells without data are the second halves of wide characters.
            width = len(cells) - (len(text) - len(shown))
            yield (
                f'<text x="{_x(column)}" y="{BASELINE:g}" '
                f'textLength="{width * CELL_WIDTH:.1f}"{kind}>{escape(shown)}</text>'
            )
        column += len(cells)


def _x(column: int) -> str:
    return f"{MARGIN + column * CELL_WIDTH:.1f}"


def _look(cell: Any) -> tuple[str, tuple[str, ...]]:
    words = (("b", cell.bold), ("i", cell.italics), ("u", cell.underscore))
    return _colours(cell)[0], tuple(word for word, on in words if on)


def main(arguments: Sequence[str]) -> int:
    """Draw the recording, or with ``--check`` say whether it is drawn; returns the exit code."""
    picture = drawn(Cast.read(CAST.read_text(encoding="utf-8")))
    if "--check" in arguments:
        if SVG.exists() and SVG.read_text(encoding="utf-8") == picture:
            return 0
        print("docs/images/demo.svg is not what the cast shows: `python -m scripts.cast_svg`.")
        return 1
    SVG.write_text(picture, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
