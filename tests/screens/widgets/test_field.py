"""A field that does what the keys say in the order they come, be they typed or in one burst."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.events import Key

from breakglass.screens.widgets.dialog import Field
from tests.screens.turns import until

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
