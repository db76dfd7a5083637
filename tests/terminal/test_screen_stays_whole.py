"""Whatever is written beside it or however slowly it is taken, the screen shows what is so."""

from __future__ import annotations

from pathlib import Path

from tests.terminal.canned_page import NOISE
from tests.terminal.conftest import OpenConsole
from tests.terminal.pty_terminal import FRAME_SECONDS, MANY_FRAMES, PtyTerminal


def test_the_size_is_followed_and_what_a_library_writes_is_kept_off_the_screen_and_told_of(
    canned_console: OpenConsole, state: Path
) -> None:
    terminal = canned_console()
    terminal.resize(60, 20)
    terminal.until(lambda: terminal.lines[19].endswith("? help"), "the keys on the last line")
    assert len(terminal.lines[19]) == 60
    terminal.resize(80, 24)
    terminal.until(lambda: len(terminal.lines[23]) == 80, "the keys on the last line")
    terminal.press("n")
    terminal.wait_for("noise made")
    wait_for_rows(terminal, cursor=0)
    assert NOISE.strip() not in terminal.raw
    terminal.press("q")
    assert terminal.exit_code() == 0
    (kept,) = (state / "output").iterdir()
    assert kept.read_bytes() == NOISE
    assert f"wrote {len(NOISE)} bytes" in terminal.text


def test_a_stalled_terminal_shows_in_the_end_what_is_so(
    canned_console: OpenConsole, state: Path
) -> None:
    terminal = canned_console()
    terminal.stall()
    terminal.send_slowly(MANY_FRAMES, FRAME_SECONDS)
    terminal.press("home", *["down"] * 5)
    said = state / "said"
    terminal.until(
        lambda: said.exists() and said.read_text() == "at row-5", "the last key to be taken"
    )
    terminal.flow()
    terminal.wait_for("at row-5")
    wait_for_rows(terminal, cursor=5)


def wait_for_rows(terminal: PtyTerminal, cursor: int) -> None:
    """Wait for all rows in their places; a bar at the right says how far they are scrolled."""
    rows = [f"{'>' if number == cursor else ' '}row-{number}" for number in range(17)]
    terminal.until(
        lambda: [line.partition("  ")[0] for line in terminal.lines[4:21]] == rows, "the rows"
    )
