"""What is found out of a terminal, and what the operator chooses over that."""

import pytest

from breakglass.screens.terminal import Terminal
from breakglass.themes.palettes import PALETTES


@pytest.mark.parametrize(
    ("environ", "theme"),
    [
        ("TERM=xterm-256color", "breakglass-dark"),
        ("TERM=xterm COLORTERM=truecolor", "breakglass-dark"),
        ("TERM=xterm-kitty", "breakglass-dark"),
        ("TERM=tmux-256color", "breakglass-dark"),
        ("TERM=rxvt-256color COLORFGBG=15;0", "breakglass-dark"),
        ("TERM=xterm", "breakglass-ansi-dark"),
        ("TERM=linux", "breakglass-ansi-dark"),
        ("TERM=screen", "breakglass-ansi-dark"),
        ("", "breakglass-ansi-dark"),
        ("TERM=xterm COLORFGBG=0;15", "breakglass-ansi-light"),
        ("TERM=rxvt-256color COLORFGBG=0;default;15", "breakglass-light"),
        ("TERM=xterm-256color NO_COLOR=1", "breakglass-monochrome"),
        ("TERM=xterm-256color NO_COLOR=", "breakglass-monochrome"),
    ],
)
def test_a_theme_suits_the_colours_there_are(environ: str, theme: str) -> None:
    assert Terminal.detect(variables(environ)).theme == theme
    assert theme in [palette.name for palette in PALETTES]


def variables(text: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in text.split())


@pytest.mark.parametrize(
    "environ",
    [
        *("LANG=C", "LANG=POSIX", "LANG=en_US.ISO-8859-1", "LANG=C LC_CTYPE=C.UTF-8"),
        *(f"LANG=en_US.UTF-8 {more}" for more in ("LC_ALL=C", "LC_CTYPE=C", "TERM=linux")),
        "LANG=en_US.UTF-8 TERM=vt220",
        *(f"TERM={name}" for name in ("screen.linux", "linux-16color", "vt220-8bit", "vt100-am")),
    ],
)
def test_ascii_is_drawn_where_nothing_else_can_be(environ: str) -> None:
    assert Terminal.detect(variables(environ)).ascii_only
