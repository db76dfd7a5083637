"""Themes of the user: what is read of a file, and when it is skipped."""

from pathlib import Path

import pytest
from rich.style import Style

from breakglass.themes.files import LARGEST_FILE, read_themes
from breakglass.themes.palettes import ANSI_LIGHT, DARK
from breakglass.themes.roles import Role, theme_role_style

NIGHT = """
name = "night-shift"
[colors]
background = "#000000"
[roles]
lost = "bold #ff0000 on #220000"
"""


def test_a_theme_is_its_base_and_what_it_changes(tmp_path: Path) -> None:
    (tmp_path / "night.toml").write_text(NIGHT)
    (tmp_path / "own.toml").write_text('name = "own"\nbase = "breakglass-ansi-light"\n')
    theme, own = read_themes(tmp_path).themes
    assert (theme.name, theme.background, theme.primary) == ("night-shift", "#000000", DARK.primary)
    assert theme_role_style(theme, Role.LOST) == Style.parse("bold #ff0000 on #220000")
    assert theme_role_style(theme, Role.SAFE) == theme_role_style(DARK, Role.SAFE)
    assert theme_role_style(DARK, Role.LOST) == Style.parse("bold #ff7b72"), "the base stays"
    assert own.ansi
    assert theme_role_style(own, Role.KEY) == theme_role_style(ANSI_LIGHT, Role.KEY)


def test_files_that_cannot_be_used_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("name = \n")
    (tmp_path / "b.toml").write_text(NIGHT)
    (tmp_path / "c.toml").write_text(NIGHT)
    (tmp_path / "d.toml").mkdir()
    (tmp_path / "notes.txt").write_text("not a theme")
    found = read_themes(tmp_path)
    assert [theme.name for theme in found.themes] == ["night-shift"]
    assert [one.file.name for one in found.problems] == ["a.toml", "c.toml", "d.toml"]
    assert read_themes(tmp_path / "notes.txt").problems
    assert read_themes(tmp_path / "none").problems == ()


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b'base = "breakglass-dark"', "'name'"),
        (b'name = "Night Shift"', "'name'"),
        (b"name = 3", "'name'"),
        (b'name = "breakglass-dark"', "'breakglass-dark'"),
        (b'name = "nord"', "'nord'"),
        (b'name = "a"\nbase = "nord"', "'nord'"),
        (b'name = "a"\ndark = "yes"', "'dark'"),
        (b'name = "a"\ncolour = "red"', "'colour'"),
        (b'name = "a"\ncolors = "red"', "'colors'"),
        (b'name = "a"\n[colors]\nprimary = "reddish"', "'reddish'"),
        (b'name = "a"\n[colors]\nprimary = 3', "'primary'"),
        (b'name = "a"\n[colors]\nlost = "red"', "'lost'"),
        (b'name = "a"\n[roles]\nloss = "red"', "'loss'"),
        (b'name = "a"\n[roles]\nlost = "boldly"', "'boldly'"),
        (b'name = "\xff"', "UTF-8"),
        (b"#" * (LARGEST_FILE + 1), f"{LARGEST_FILE:,}"),
    ],
)
def test_a_file_is_skipped_with_what_is_wrong(tmp_path: Path, content: bytes, named: str) -> None:
    (tmp_path / "own.toml").write_bytes(content)
    found = read_themes(tmp_path)
    assert (found.themes, named in found.problems[0].sentence) == ((), True)
