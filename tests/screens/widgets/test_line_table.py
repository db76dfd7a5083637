"""The table drawn line by line: its cursor, its columns, and that it is fast and inert."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pytest
from textual.app import App, ComposeResult

from breakglass.screens.widgets.line_columns import Cell, LineColumn
from breakglass.screens.widgets.line_table import LineTable
from breakglass.themes.palettes import DARK
from breakglass.themes.roles import Role, theme_role_style
from tests.screens.turns import lines, text

HUNDRED_THOUSAND = 100_000

COLUMNS = (
    LineColumn[int]("Partition", lambda row: Cell(f"orders-{row}"), shrinks=True),
    LineColumn[int]("LEO", lambda row: Cell(f"{row * 10:,}"), right=True),
    LineColumn[int]("Newest", lambda row: Cell("10:45:12"), least_width=60),
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


@pytest.fixture
def ten_rows() -> Tables:
    return Tables(range(10))


async def test_the_cursor_moves_by_arrows_pages_and_to_both_ends(ten_rows: Tables) -> None:
    async with ten_rows.run_test(size=(80, 8)) as pilot:
        for key, row in (("down", 1), ("j", 2), ("k", 1), ("end", 9), ("home", 0), ("pagedown", 6)):
            await pilot.press(key)
            assert ten_rows.table.current == row
        assert ("moved", 6) in ten_rows.told


async def test_the_cursor_stays_within_the_rows(ten_rows: Tables) -> None:
    async with ten_rows.run_test(size=(80, 8)) as pilot:
        await pilot.press("up", "end", "down", "pagedown")
        assert ten_rows.table.current == 9


async def test_enter_opens_the_row_under_the_cursor(ten_rows: Tables) -> None:
    async with ten_rows.run_test(size=(80, 8)) as pilot:
        await pilot.press("down", "enter")
        await pilot.pause()
        assert ten_rows.told[-1] == ("chosen", 1)


async def test_the_cursor_follows_its_row_when_rows_come_before_it(ten_rows: Tables) -> None:
    async with ten_rows.run_test(size=(80, 8)) as pilot:
        await pilot.press("down", "down", "down")
        ten_rows.table.set_rows([50, 51, 52, *reversed(range(10))])
        await pilot.pause()
        assert ten_rows.table.current == 3


async def test_the_cursor_keeps_its_place_when_its_row_is_gone(ten_rows: Tables) -> None:
    async with ten_rows.run_test(size=(80, 8)) as pilot:
        await pilot.press("down", "down", "down")
        ten_rows.table.set_rows([0, 1, 2, 4, 5])
        await pilot.pause()
        assert ten_rows.table.current == 4
        assert ten_rows.told[-1] == ("moved", 4)


async def test_the_row_under_the_cursor_is_in_sight_after_every_key() -> None:
    app = Tables(range(200))
    async with app.run_test(size=(80, 10)) as pilot:
        for key in ("end", "home", "pagedown", "pagedown", "up", "pageup", "down"):
            await pilot.press(key)
            await pilot.pause()
            assert any(line.startswith(f">orders-{app.table.current} ") for line in lines(app))


async def test_the_row_under_the_cursor_is_in_sight_in_a_smaller_terminal() -> None:
    app = Tables(range(200))
    async with app.run_test(size=(80, 30)) as pilot:
        await pilot.press("pagedown")
        await pilot.resize_terminal(80, 6)
        await pilot.pause()
        assert any(line.startswith(f">orders-{app.table.current} ") for line in lines(app))


async def test_the_cursor_and_a_mark_are_both_seen_on_one_row() -> None:
    app = Tables(range(5))
    async with app.run_test(size=(80, 10)) as pilot:
        app.table.set_marked({0, 3})
        await pilot.pause()
        signs = [line[:2] for line in lines(app)[1:6]]
        assert signs == [">*", "  ", "  ", " *", "  "]


async def test_dark_text_keeps_its_own_background_under_the_cursor() -> None:
    """A verdict in dark letters could not be read on the dark line of the cursor."""
    app = Tables(range(2), [LineColumn[int]("Verdict", lambda row: Cell("BOMB", Role.BOMB))])
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


async def test_numbers_stand_to_the_right_of_their_column(ten_rows: Tables) -> None:
    async with ten_rows.run_test(size=(80, 8)) as pilot:
        await pilot.pause()
        ends = {line.index("10:45:12") for line in lines(ten_rows)[1:4]}
        assert len(ends) == 1
        assert "LEO  Newest" in lines(ten_rows)[0]


async def test_a_column_gives_way_in_a_narrow_terminal(ten_rows: Tables) -> None:
    async with ten_rows.run_test(size=(50, 8)) as pilot:
        await pilot.pause()
        assert "Newest" not in text(ten_rows)
        assert "orders-1 " in text(ten_rows)


async def test_a_column_grows_with_cells_that_say_more_of_the_same_rows() -> None:
    said = {1: "next"}
    columns = (
        LineColumn[int]("State", lambda row: Cell(said[row])),
        LineColumn[int]("LEO", lambda row: Cell("10")),
    )
    tables = Tables([1], columns)
    async with tables.run_test(size=(40, 4)) as pilot:
        said[1] = "waits for its turn"
        tables.table.set_rows(tables.first)
        await pilot.pause()
        assert "waits for its turn" in text(tables)


async def test_what_does_not_fit_is_cut_with_a_sign() -> None:
    long_name = LineColumn[int]("Partition", lambda row: Cell("o" * 38), shrinks=True)
    app = Tables([1], (long_name, *COLUMNS[1:2]))
    async with app.run_test(size=(30, 5)) as pilot:
        await pilot.pause()
        assert "o…" in lines(app)[1]
        assert lines(app)[1].endswith("10")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("payments.transactions.settled-117", "payments.transact…-117"),
        ("payments.transactions-* (9,999)", "payments.tr…-* (9,999)"),
        ("payments.transactions.settled", "payments.transactions…"),
        ("a-name.without.a.partition.number", "a-name.without.a.part…"),
    ],
)
async def test_the_number_of_a_partition_stays_where_its_topic_is_cut(
    name: str, shown: str
) -> None:
    column = LineColumn[int]("Partition", lambda row: Cell(name), shrinks=True, tail="-")
    app = Tables([1], (column, *COLUMNS[1:2]))
    async with app.run_test(size=(30, 5)) as pilot:
        await pilot.pause()
        assert shown in lines(app)[1]


@pytest.mark.parametrize("hostile", ["[red]x[/]", "\x1b[31mred", "a‮b", "tab\there", "日本-語"])
async def test_a_hostile_cell_is_shown_as_it_is(hostile: str) -> None:
    app = Tables([1], (LineColumn[int]("Name", lambda row: Cell(hostile)), *COLUMNS[1:2]))
    async with app.run_test(size=(80, 5)) as pilot:
        await pilot.pause()
        shown = lines(app)[1]
        assert "\x1b" not in shown
        assert "‮" not in shown
        assert shown.endswith("10")
        if hostile.isprintable():
            assert hostile in shown


async def test_an_empty_table_says_why(ten_rows: Tables) -> None:
    async with ten_rows.run_test(size=(80, 8)) as pilot:
        ten_rows.table.set_rows([])
        await pilot.pause()
        assert "Nothing is offline." in text(ten_rows)
        await pilot.press("enter", "down")
        assert ten_rows.table.current is None


async def test_a_hundred_thousand_rows_are_taken_and_walked_without_a_pause() -> None:
    app = Tables(range(HUNDRED_THOUSAND))
    async with app.run_test(size=(80, 24)) as pilot:
        began = time.process_time()
        app.table.set_rows(range(HUNDRED_THOUSAND))
        app.table.render_line(1)
        assert time.process_time() - began < 0.05
        await pilot.press("end")
        assert app.table.current == HUNDRED_THOUSAND - 1


async def test_why_a_table_is_empty_is_folded_and_not_cut() -> None:
    app = Tables([])
    async with app.run_test(size=(14, 6)) as pilot:
        await pilot.pause()
        assert lines(app)[1:3] == [" Nothing is", " offline."]


async def test_a_table_that_marks_nothing_wastes_no_column_on_marks(ten_rows: Tables) -> None:
    async with ten_rows.run_test(size=(80, 8)) as pilot:
        await pilot.pause()
        assert lines(ten_rows)[1].startswith(">orders-0")


@pytest.mark.parametrize(("width", "seen"), [(60, "Partition LEO Newest"), (32, "Partition LEO")])
async def test_a_column_that_yields_is_left_out_before_another_is_cut(
    width: int, seen: str
) -> None:
    yields = LineColumn[int]("Newest", lambda row: Cell("10:45:12"), yields=1)
    name = LineColumn[int]("Partition", lambda row: Cell(f"orders-{row}-of-many"), shrinks=True)
    app = Tables(range(10), (name, yields, LineColumn[int]("LEO", lambda row: Cell("1" * 12))))
    async with app.run_test(size=(width, 8)) as pilot:
        await pilot.pause()
        assert sorted(lines(app)[0].split()) == sorted(seen.split())
        assert "1" * 12 in lines(app)[1]
