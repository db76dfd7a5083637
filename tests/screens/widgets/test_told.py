"""Words that change often: the screen is only laid out where they take more lines, or fewer."""

from __future__ import annotations

from functools import partial

from rich.text import Text
from textual.app import App, ComposeResult

from breakglass.screens.widgets.told import StyledLines
from tests.screens.turns import lines, until


class Telling(App[None]):
    """Two of them, one below the other."""

    def compose(self) -> ComposeResult:
        yield StyledLines(id="first")
        yield StyledLines(id="second")


def below(app: Telling, line: int) -> bool:
    return lines(app)[line].startswith("below")


async def test_what_is_below_moves_with_the_lines_that_words_take_and_with_nothing_else() -> None:
    app = Telling()
    async with app.run_test(size=(20, 10)) as pilot:
        first, second = app.query_one("#first", StyledLines), app.query_one("#second", StyledLines)
        second.tell(Text("below"))
        for words, taken in (
            ("so many words that they take three of the lines", 3),
            ("a line\nand one more", 2),
            ("[b]one[/]", 1),
            ("another", 1),
        ):
            before = first._layout_updates
            first.tell(Text(words))
            await until(pilot, partial(below, app, taken), words)
            assert lines(app)[0].startswith(words[:6])
        assert first._layout_updates == before
