"""What is found out of a terminal, and what the operator chooses over that."""

from __future__ import annotations

import pytest

from breakglass.screens.terminal import Terminal
from breakglass.themes.palettes import PALETTES


@pytest.mark.parametrize(
    ("environ", "theme"),
    [
        ({"TERM": "xterm-256color"}, "breakglass-dark"),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "breakglass-dark"),
        ({"TERM": "xterm-kitty"}, "breakglass-dark"),
        ({"TERM": "tmux-256color"}, "breakglass-dark"),
        ({"TERM": "xterm"}, "breakglass-ansi-dark"),
        ({"TERM": "xterm-16color"}, "breakglass-ansi-dark"),
        ({"TERM": "linux"}, "breakglass-ansi-dark"),
        ({"TERM": "screen"}, "breakglass-ansi-dark"),
        ({"TERM": "tmux"}, "breakglass-ansi-dark"),
        ({}, "breakglass-ansi-dark"),
        ({"TERM": "xterm", "COLORFGBG": "0;15"}, "breakglass-ansi-light"),
        ({"TERM": "rxvt-256color", "COLORFGBG": "0;default;15"}, "breakglass-light"),
        ({"TERM": "rxvt-256color", "COLORFGBG": "15;0"}, "breakglass-dark"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "breakglass-monochrome"),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, "breakglass-monochrome"),
    ],
)
def test_a_theme_suits_the_colours_there_are(environ: dict[str, str], theme: str) -> None:
    assert Terminal.detect(environ).theme == theme
    assert theme in [palette.name for palette in PALETTES]


@pytest.mark.parametrize(
    ("environ", "ascii_only"),
    [
        ({"LANG": "en_US.UTF-8"}, False),
        ({"LANG": "de_DE.utf8"}, False),
        ({}, False),
        ({"LC_CTYPE": "UTF-8"}, False),
        ({"LANG": "C.UTF-8"}, False),
        ({"LANG": "C"}, True),
        ({"LANG": "POSIX"}, True),
        ({"LANG": "en_US.ISO-8859-1"}, True),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, True),
        ({"LANG": "C", "LC_ALL": "en_US.UTF-8"}, False),
        ({"LANG": "en_US.UTF-8", "LC_CTYPE": "C"}, True),
        ({"LANG": "en_US.UTF-8", "TERM": "linux"}, True),
        ({"LANG": "en_US.UTF-8", "TERM": "vt220"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),
    ],
)
def test_ascii_is_drawn_where_nothing_else_can_be(
    environ: dict[str, str], ascii_only: bool
) -> None:
    assert Terminal.detect(environ).ascii_only is ascii_only


@pytest.mark.parametrize("name", ["SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"])
def test_the_mouse_is_left_to_the_terminal_over_ssh(name: str) -> None:
    there, here = Terminal.detect({name: "10.0.0.1 22"}), Terminal.detect({})

    assert (there.remote, there.mouse) == (True, False)
    assert (here.remote, here.mouse) == (False, True)


def test_the_operators_word_stands_over_what_is_found() -> None:
    over_ssh = {"SSH_TTY": "/dev/pts/3", "LANG": "C"}

    terminal = Terminal.detect(over_ssh, ascii_only=False, mouse=True)

    assert (terminal.ascii_only, terminal.mouse) == (False, True)
    assert Terminal.detect({}, ascii_only=True, mouse=False).ascii_only
