"""Tables, courses and words that change often are drawn line by line, fast and inert."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from rich.text import Text
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from breakglass.screens.ascii import in_ascii
from breakglass.screens.overview import LEVELS, sparkline
from breakglass.screens.widgets.facts import StyledLines
from breakglass.screens.widgets.line_table import LineColumn, LineTable
from breakglass.themes.palettes import DARK
from breakglass.themes.roles import Role, Words, theme_role_style
from tests.kit.work import calls_of
from tests.screens.turns import is_inert, lines, text, until

HUNDRED_THOUSAND = 100_000
LEO = LineColumn[int]("LEO", lambda row: f"{row * 10:,}", right=True)
COLUMNS = (
    LineColumn[int]("Partition", lambda row: f"orders-{row}", shrinks=True),
    LEO,
    LineColumn[int]("Newest", lambda row: "10:45:12", least_width=60),
)


class Tables(App[None]):
    def __init__(self, rows: Iterable[int], columns: Any = COLUMNS) -> None:
        super().__init__()
        self.table = LineTable[int](columns, key=lambda row: row, empty="Nothing is offline.")
        self.first = list(rows)
        self.told: list[object] = []

    def compose(self) -> ComposeResult:
        yield self.table

    def on_mount(self) -> None:
        self.table.set_rows(self.first)
        self.table.focus()

    def on_line_table_moved(self, message: LineTable.Moved) -> None:
        self.told.append(("moved", message.row))

    def on_line_table_chosen(self, message: LineTable.Chosen) -> None:
        self.told.append(("chosen", message.row))


@asynccontextmanager
async def shown(
    rows: Iterable[int] = range(10), *columns: LineColumn[int], size: tuple[int, int] = (80, 8)
) -> AsyncIterator[tuple[Pilot[None], Tables]]:
    app = Tables(rows, columns or COLUMNS)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield pilot, app


async def test_the_cursor_moves_by_keys_follows_its_row_and_enter_opens() -> None:
    async with shown() as (pilot, app):
        assert lines(app)[1].startswith(">orders-0"), "no column is wasted on marks"
        for key, row in (
            ("down", 1), ("j", 2), ("k", 1), ("end", 9), ("down", 9), ("pagedown", 9),
            ("home", 0), ("up", 0), ("pagedown", 6),
        ):  # fmt: skip
            await pilot.press(key)
            assert app.table.current == row
        assert ("moved", 6) in app.told
        await pilot.press("enter")
        await pilot.pause()
        assert app.told[-1] == ("chosen", 6)

        await pilot.press("home", "down", "down", "down")
        for rows, current in (
            ([50, 51, 52, *reversed(range(10))], 3),
            (range(10), 3),
            ([0, 1, 2, 4, 5], 4),
        ):
            app.table.set_rows(rows)
            await pilot.pause()
            assert app.table.current == current, "it keeps its place when that is gone"
        assert app.told[-1] == ("moved", 4)

        await pilot.press("home")
        app.table.set_marked({0, 4})
        await pilot.pause()
        assert [line[:2] for line in lines(app)[1:6]] == [">*", "  ", "  ", " *", "  "]


async def test_the_row_under_the_cursor_is_in_sight_after_every_key_and_size() -> None:
    """Of a hundred thousand rows only those in sight are drawn."""
    async with shown(range(HUNDRED_THOUSAND), size=(80, 30)) as (pilot, app):
        assert calls_of(lambda: app.table.render_line(1)) < 1_000
        for key in ("end", "home", "pagedown", "pagedown", "up", "pageup", "down", ""):
            if key:
                await pilot.press(key)
            else:
                await pilot.resize_terminal(80, 6)
            await pilot.pause()
            assert any(line.startswith(f">orders-{app.table.current} ") for line in lines(app))
        await pilot.press("end")
        assert app.table.current == HUNDRED_THOUSAND - 1


async def test_dark_text_keeps_its_own_background_under_the_cursor() -> None:
    """A verdict in dark letters could not be read on the dark line of the cursor."""
    app = Tables(range(2), [LineColumn[int]("Verdict", lambda row: Words("BOMB", Role.BOMB))])
    app.register_theme(DARK)
    app.theme = DARK.name
    async with app.run_test(size=(40, 8)) as pilot:
        await pilot.pause()
        (bomb,) = (part for part in app.table.render_line(1) if part.text.startswith("BOMB"))
        (sign, *_) = app.table.render_line(1)
    own, cursor = (theme_role_style(DARK, role) for role in (Role.BOMB, Role.CURSOR))
    assert bomb.style is not None
    assert sign.style is not None
    assert (bomb.style.color, bomb.style.bgcolor) == (own.color, own.bgcolor)
    assert sign.style.bgcolor == cursor.bgcolor


async def test_numbers_stand_to_the_right_and_a_column_gives_way_in_a_narrow_terminal() -> None:
    async with shown() as (pilot, app):
        assert len({line.index("10:45:12") for line in lines(app)[1:4]}) == 1
        assert "LEO  Newest" in lines(app)[0]
        await pilot.resize_terminal(50, 8)
        await until(pilot, lambda: "Newest" not in text(app), "the column to give way")
        assert "orders-1 " in text(app)


async def test_a_column_grows_with_cells_that_say_more_of_the_same_rows() -> None:
    said = {1: "next"}
    state = LineColumn[int]("State", lambda row: said[row])
    async with shown([1], state, LEO, size=(40, 4)) as (pilot, app):
        said[1] = "waits for its turn"
        app.table.set_rows(app.first)
        await pilot.pause()
        assert "waits for its turn" in text(app)


async def test_the_number_of_a_partition_stays_where_its_topic_is_cut() -> None:
    cut = {
        "payments.transactions.settled-117": "payments.transact…-117",
        "payments.transactions-* (9,999)": "payments.tr…-* (9,999)",
        "payments.transactions.settled": "payments.transactions…",
        "a-name.without.a.partition.number": "a-name.without.a.part…",
    }
    names = list(cut)
    column = LineColumn[int]("Partition", lambda row: names[row], shrinks=True, tail="-")
    async with shown(range(4), column, LEO, size=(30, 8)) as (_, app):
        for row, line in enumerate(lines(app)[1:5]):
            assert cut[names[row]] in line
            assert line.endswith(f"{row * 10}")


async def test_a_hostile_cell_is_shown_as_it_is() -> None:
    hostile = ["[red]x[/]", "\x1b[31mred", "a\u202eb", "tab\there", "日本-語"]
    async with shown(range(5), LineColumn[int]("Name", lambda row: hostile[row]), LEO) as (
        _,
        app,
    ):
        assert is_inert(app)
        for row, line in enumerate(lines(app)[1:6]):
            assert line.endswith(f"{row * 10}")
            assert hostile[row] in line or not hostile[row].isprintable()


async def test_why_a_table_is_empty_is_folded_and_not_cut() -> None:
    async with shown([], size=(14, 6)) as (pilot, app):
        assert lines(app)[1:3] == [" Nothing is", " offline."]
        await pilot.press("enter", "down")
        assert app.table.current is None


async def test_a_column_that_yields_is_left_out_before_another_is_cut() -> None:
    yields = LineColumn[int]("Newest", lambda row: "10:45:12", yields=1)
    name = LineColumn[int]("Partition", lambda row: f"orders-{row}-of-many", shrinks=True)
    end = LineColumn[int]("LEO", lambda row: "1" * 12)
    async with shown(range(10), name, yields, end, size=(60, 8)) as (pilot, app):
        assert sorted(lines(app)[0].split()) == ["LEO", "Newest", "Partition"]
        assert "1" * 12 in lines(app)[1]
        await pilot.resize_terminal(32, 8)
        await until(pilot, lambda: "Newest" not in text(app), "the column to give way")
        assert sorted(lines(app)[0].split()) == ["LEO", "Partition"]
        assert "1" * 12 in lines(app)[1]


def test_the_highest_is_full_only_zero_is_empty_and_every_level_has_a_sign_in_ascii() -> None:
    drawn: dict[str, list[int | None]] = {
        "": [],
        "▁▁": [0, 0],
        "▁█": [0, 7],
        "▂█": [1, 100_000],
        " █ ": [None, 3, None],
        " ": [None],
        LEVELS: [*range(8)],
    }
    for expected, values in drawn.items():
        assert sparkline(values) == expected
    assert in_ascii(LEVELS) == "_.==oOO#"


class Telling(App[None]):
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
