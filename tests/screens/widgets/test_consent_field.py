"""Typing a phrase: what counts as typed, what is refused, what never does harm."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.events import Paste
from textual.pilot import Pilot

from breakglass.screens.widgets.consent import LONGEST, ConsentField
from tests.screens.turns import shows, text, until

PHRASE = "orders-3 lose 50"


class Form(App[None]):
    """A field on a page whose letters mean something else."""

    BINDINGS = [  # noqa: RUF012 -- as Textual has it
        Binding(key, f"note('{key}')", "Elsewhere")
        for key in ("q", "1", "question_mark", "colon", "left_square_bracket", "escape", "r")
    ]

    def __init__(self, wanted: str = PHRASE) -> None:
        super().__init__()
        self.wanted = wanted
        self.noted: list[str] = []
        self.given: list[ConsentField.Given] = []
        self.refused = 0

    def compose(self) -> ComposeResult:
        field = ConsentField()
        field.wanted = self.wanted
        yield field

    def on_mount(self) -> None:
        self.field.focus()

    @property
    def field(self) -> ConsentField:
        return self.query_one(ConsentField)

    def action_note(self, key: str) -> None:
        self.noted.append(key)

    @on(ConsentField.Given)
    def _given(self, message: ConsentField.Given) -> None:
        self.given.append(message)

    @on(ConsentField.PasteRefused)
    def _refused(self) -> None:
        self.refused += 1


@asynccontextmanager
async def typing(*keys: str, wanted: str = PHRASE) -> AsyncIterator[tuple[Pilot[None], Form]]:
    """A form after *keys*."""
    form = Form(wanted)
    async with form.run_test(size=(60, 10)) as pilot:
        await pilot.press(*keys)
        yield pilot, form


async def test_every_printable_key_is_typed_and_others_take_it_back() -> None:
    keys = ("q", "1", "question_mark", "colon", "space", "left_square_bracket", "ä")
    async with typing(*keys) as (pilot, form):
        assert form.field.typed == "q1?: [ä"
        await pilot.press("backspace")
        assert form.field.typed == "q1?: ["
        await pilot.press("ctrl+u", *"orders", "escape")
        assert (form.field.typed, form.noted) == ("", [])
        await pilot.press("escape")
        await until(pilot, lambda: form.noted == ["escape"], "the page's own")


async def test_enter_gives_what_was_typed_and_says_if_it_is_the_phrase() -> None:
    async with typing(*PHRASE, "enter", "x", "enter") as (pilot, form):
        await until(pilot, lambda: len(form.given) == 2, "both")
    given = [(given.typed, given.exact) for given in form.given]
    assert given == [(PHRASE, True), (f"{PHRASE}x", False)]


async def test_pasting_is_refused_and_takes_nothing() -> None:
    async with typing("o") as (pilot, form):
        form.post_message(Paste(PHRASE[1:]))
        await until(pilot, lambda: form.refused == 1, "the refusal")
        await pilot.press("ctrl+v")
        assert form.field.typed == "o"


async def test_an_arrow_that_a_slow_link_split_gives_no_consent() -> None:
    async with typing() as (pilot, form):
        for letter in "ABCD":
            await pilot.press(*PHRASE, "escape", "left_square_bracket", letter, "enter", "ctrl+u")
        await until(pilot, lambda: len(form.given) == 4, "what was given")
    assert [given.typed for given in form.given] == ["[A", "[B", "[C", "[D"]
    assert not any(given.exact for given in form.given)


async def test_what_is_not_the_phrase_is_said_in_words_while_it_is_typed() -> None:
    async with typing(*"orders-3 lose 5") as (pilot, form):
        assert "not the phrase" not in text(form)
        await pilot.press("1")
        assert form.field.wrong_from == len("orders-3 lose 5")
        await shows(pilot, "not the phrase")


async def test_a_phrase_that_cannot_be_typed_is_typed_as_it_is_shown() -> None:
    keys = "orders\\x1b[2J-0 lose 0"
    async with typing(*keys, "enter", wanted="orders\x1b[2J-0 lose 0") as (pilot, form):
        await until(pilot, lambda: form.given, "what was given")
    assert form.given[0].exact


async def test_a_long_phrase_is_seen_whole_and_too_many_keys_are_dropped() -> None:
    phrase = f"{'t' * 249}-0 lose 0"
    async with typing(wanted=phrase) as (pilot, form):
        form.field.typed = phrase
        await shows(pilot, "lose 0")
        form.field.typed = "x" * LONGEST
        await pilot.press("y")
        assert len(form.field.typed) == LONGEST
