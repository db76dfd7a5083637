"""In tmux, as operators run it: drawn, resized, left."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kit.extent import EVERYTHING
from tests.kit.waiting import wait_until
from tests.terminal.conftest import CANNED, ROOT, environment

PANE = "%0"

pytestmark = pytest.mark.skipif(
    shutil.which("tmux") is None and EVERYTHING not in os.environ, reason="needs tmux"
)


class Tmux:
    """A tmux server of its own, with one session of one pane."""

    def __init__(self, socket: Path) -> None:
        self._command = ["tmux", "-f", "/dev/null", "-S", str(socket)]

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._command, *arguments], env=environment(), capture_output=True, cwd=ROOT
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    @property
    def lines(self) -> list[str]:
        return self.run("capture-pane", "-p", "-t", PANE).splitlines()

    def press(self, *keys: str) -> None:
        self.run("send-keys", "-t", PANE, *keys)

    def until(self, so: Callable[[], object]) -> None:
        wait_until(so, "what tmux is to show", instead=lambda: "\n".join(self.lines))


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    """A pane of 80x24 with a shell in it."""
    tmux = Tmux(tmp_path / "socket")
    shell = "env PS1=shell-is-here bash --norc --noprofile -i"
    tmux.run("new-session", "-d", "-x", "80", "-y", "24", shell)
    yield tmux
    tmux.run("kill-server")


def shown_whole(lines: list[str], cursor: str) -> bool:
    """Whether all of 60x20 is drawn, with the cursor on its row."""
    return (
        len(lines) == 20
        and max(map(len, lines)) == 60
        and lines[-1].endswith("? help")
        and [line.split()[0] for line in lines if line.startswith(">")] == [cursor]
    )


def test_in_tmux_it_is_drawn_resized_and_left(tmux: Tmux, state: Path) -> None:
    state.mkdir()
    tmux.until(lambda: "shell-is-here" in tmux.lines)
    tmux.run("send-keys", "-t", PANE, "-l", f"clear; {shlex.join([*CANNED, str(state)])}")
    tmux.press("Enter")
    tmux.until(lambda: tmux.lines[-1].endswith("? help") and len(tmux.lines) == 24)
    tmux.press("Down", "Down")
    tmux.until(lambda: "at row-2" in tmux.lines)
    tmux.run("resize-window", "-t", PANE, "-x", "60", "-y", "20")
    tmux.until(lambda: shown_whole(tmux.lines, cursor=">row-2"))
    tmux.press("q")
    tmux.until(lambda: "row-2" not in "".join(tmux.lines))
    tmux.until(lambda: "shell-is-here" in tmux.lines)
    modes = "#{alternate_on} #{cursor_flag} #{mouse_any_flag}"
    assert tmux.run("display-message", "-p", "-t", PANE, modes).split() == ["0", "1", "0"]
