"""Typing a phrase, a field of keys in any burst: what counts as typed, what is refused."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.events import Key, Paste
from textual.pilot import Pilot

from breakglass.screens.widgets import consent
from breakglass.screens.widgets.consent import LONGEST, TYPED_AT_MOST, ConsentField
from breakglass.screens.widgets.dialog import Field
from tests.kit.clock import Clock
from tests.screens.turns import shows, text, until

PHRASE = "orders-3 lose 50"
SECONDS = 0.0625
"""In which a paste comes."""


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
    form = Form(wanted)
    async with form.run_test(size=(60, 10)) as pilot:
        await pilot.press(*keys)
        yield pilot, form


async def test_every_printable_key_is_typed_others_take_it_back_and_pasting_takes_nothing() -> None:
    keys = ("q", "1", "question_mark", "colon", "space", "left_square_bracket", "ä")
    async with typing(*keys) as (pilot, form):
        assert form.field.typed == "q1?: [ä"
        await pilot.press("backspace")
        assert form.field.typed == "q1?: ["
        form.post_message(Paste(PHRASE[1:]))
        await until(pilot, lambda: form.refused == 1, "the refusal")
        await pilot.press("ctrl+v")
        assert form.field.typed == "q1?: ["
        await pilot.press("ctrl+u", *"orders", "escape")
        assert (form.field.typed, form.noted) == ("", [])
        await pilot.press("escape")
        await until(pilot, lambda: form.noted == ["escape"], "the page's own")


async def test_enter_gives_what_was_typed_and_words_say_at_once_if_it_is_not_the_phrase() -> None:
    """An arrow that a slow link split gives no consent."""
    async with typing(*PHRASE, "enter", "x", "enter") as (pilot, form):
        for letter in "ABCD":
            split = ("escape", "left_square_bracket", letter)
            await pilot.press("ctrl+u", *PHRASE, *split, "enter")
        await until(pilot, lambda: len(form.given) == 6, "what was given")
        given = [(given.typed, given.exact) for given in form.given]
        assert given[:2] == [(PHRASE, True), (f"{PHRASE}x", False)]
        assert given[2:] == [(f"[{letter}", False) for letter in "ABCD"]
        await pilot.press("ctrl+u", *PHRASE[:-1])
        assert "not the phrase" not in text(form)
        await pilot.press("1")
        assert form.field.wrong_from == len(PHRASE) - 1
        await shows(pilot, "not the phrase")


def key(name: str, at: float) -> Key:
    made = Key(name, "\r" if name == "enter" else name)
    made.time = at
    return made


@pytest.mark.parametrize(
    ("typed", "seconds", "pasted"),
    [
        (TYPED_AT_MOST + 1, SECONDS / 2, True),
        (TYPED_AT_MOST, 0.0, False),
        (TYPED_AT_MOST + 1, SECONDS, False),
    ],
)
async def test_r42_more_characters_and_enter_than_anybody_types_in_that_time_are_a_paste(
    monkeypatch: pytest.MonkeyPatch, typed: int, seconds: float, pasted: bool
) -> None:
    monkeypatch.setattr(consent, "PASTE_SECONDS", SECONDS)
    clock, phrase = Clock(), "x" * typed
    async with typing(wanted=phrase) as (pilot, form):
        for letter in phrase:
            form.post_message(key(letter, clock()))
        clock.advance(seconds)
        form.post_message(key("enter", clock()))
        await until(pilot, lambda: form.refused or form.given, "an answer")
        assert (form.refused, len(form.given)) == ((1, 0) if pasted else (0, 1))
        assert form.field.typed == ("" if pasted else phrase)
        clock.advance(1.0)
        form.post_message(key("enter", clock()))
        await until(pilot, lambda: form.given, "Enter alone")
        assert form.given[0].exact is not pasted


async def test_after_enter_on_another_phrase_typing_replaces_it_from_the_first_wrong_letter() -> (
    None
):
    async with typing(*"orders-3 lese 50", "enter") as (pilot, form):
        await shows(pilot, "type on from the marked character")
        await pilot.press("o")
        assert form.field.typed == "orders-3 lo"
        await pilot.press(*"se 50x", "enter", "backspace", "enter")
        await until(pilot, lambda: len(form.given) == 3, "what was given")
        assert [given.exact for given in form.given] == [False, False, True]


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


CONTROL = {"enter": "\r", "escape": "\x1b", "ctrl+u": "\x15"}


class OneField(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.given: list[str] = []

    def compose(self) -> ComposeResult:
        yield Field("as it was")

    def on_input_submitted(self, message: Field.Submitted) -> None:
        self.given.append(message.value)


BURSTS = {
    ("a", "b", "enter"): "ab",
    ("ctrl+u", "a", "b", "enter"): "ab",
    ("escape", "c", "enter"): "c",
    ("ctrl+u", "a", "enter", "x", "y"): "a",
}
"""Keys, and what the field gives after them."""


async def test_a_burst_of_keys_is_taken_in_its_order_and_escape_when_empty_is_the_screens() -> None:
    app = OneField()
    async with app.run_test() as pilot:
        await until(pilot, lambda: isinstance(app.focused, Field), "the field")
        await pilot.pause()
        for keys, given in BURSTS.items():
            app.given.clear()
            for key in keys:
                app.post_message(Key(key, CONTROL.get(key, key)))
            await until(pilot, lambda: app.given, "what was given")
            assert app.given == [given]
        heard: list[str] = []
        app.bind("escape", "heard")
        app.action_heard = lambda: heard.append("escape")  # type: ignore[attr-defined]
        await pilot.press("escape")
        assert (app.query_one(Field).value, heard) == ("", [])
        await pilot.press("escape")
        assert heard == ["escape"]
