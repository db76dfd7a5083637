from __future__ import annotations

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


def test_a_folder_that_is_not_there_holds_no_themes(tmp_path: Path) -> None:
    found = read_themes(tmp_path / "themes")

    assert (found.themes, found.problems) == ((), ())


def test_a_theme_is_its_base_and_what_it_changes(tmp_path: Path) -> None:
    (tmp_path / "night.toml").write_text(NIGHT)

    (theme,) = read_themes(tmp_path).themes

    assert (theme.name, theme.background, theme.primary) == ("night-shift", "#000000", DARK.primary)
    assert theme_role_style(theme, Role.LOST) == Style.parse("bold #ff0000 on #220000")
    assert theme_role_style(theme, Role.SAFE) == theme_role_style(DARK, Role.SAFE)


def test_a_base_that_was_changed_stays_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "night.toml").write_text(NIGHT)

    read_themes(tmp_path)

    assert DARK.background == "#101418"
    assert theme_role_style(DARK, Role.LOST) == Style.parse("bold #ff7b72")


def test_another_base_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('name = "own"\nbase = "breakglass-ansi-light"\n')

    (theme,) = read_themes(tmp_path).themes

    assert theme.ansi
    assert theme_role_style(theme, Role.KEY) == theme_role_style(ANSI_LIGHT, Role.KEY)


def test_one_broken_file_is_told_of_and_the_rest_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("name = \n")
    (tmp_path / "b.toml").write_text(NIGHT)
    (tmp_path / "notes.txt").write_text("not a theme")

    found = read_themes(tmp_path)

    assert [theme.name for theme in found.themes] == ["night-shift"]
    (problem,) = found.problems
    assert problem.file == tmp_path / "a.toml"
    assert problem.sentence.startswith("The theme 'a.toml' is skipped: it is not TOML")
    assert "line 1" in problem.sentence


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'base = "breakglass-dark"', "its 'name' must be small letters"),
        (b'name = "Night Shift"', "its 'name' must be small letters"),
        (b"name = 3", "'name' is not text in quotes"),
        (b'name = "breakglass-dark"', "another theme is called 'breakglass-dark' already"),
        (b'name = "nord"', "another theme is called 'nord' already"),
        (b'name = "a"\nbase = "nord"', "its 'base' 'nord' is none of breakglass-dark,"),
        (b'name = "a"\ndark = "yes"', "'dark' is neither true nor false"),
        (b'name = "a"\ncolour = "red"', "a theme has no 'colour', only base, colors,"),
        (b'name = "a"\ncolors = "red"', "'colors' is not a table, [colors]"),
        (b'name = "a"\n[colors]\nprimary = "reddish"', "in [colors], 'reddish' is not a colour"),
        (b'name = "a"\n[colors]\nprimary = 3', "'primary' is not text in quotes"),
        (b'name = "a"\n[colors]\nlost = "red"', "[colors] has no 'lost', only accent,"),
        (b'name = "a"\n[roles]\nloss = "red"', "[roles] has no 'loss', only armed, bomb,"),
        (b'name = "a"\n[roles]\nlost = "boldly"', "in [roles], 'boldly' is not a colour"),
        (b'name = "\xff"', "it is not UTF-8 text"),
        (b"#" * (LARGEST_FILE + 1), "it is larger than 65,536 bytes"),
    ],
)
def test_why_a_file_is_skipped_is_said_in_one_sentence(
    tmp_path: Path, content: bytes, told: str
) -> None:
    (tmp_path / "own.toml").write_bytes(content)

    found = read_themes(tmp_path)

    assert found.themes == ()
    assert told in found.problems[0].sentence


def test_a_name_that_two_files_claim_is_the_first_ones(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(NIGHT)
    (tmp_path / "b.toml").write_text(NIGHT)

    found = read_themes(tmp_path)

    assert len(found.themes) == 1
    assert [problem.file.name for problem in found.problems] == ["b.toml"]


def test_a_file_that_cannot_be_opened_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "a.toml").mkdir()

    (problem,) = read_themes(tmp_path).problems

    assert "it cannot be read (Is a directory)" in problem.sentence


def test_a_folder_that_is_a_file_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "themes").write_text("")

    (problem,) = read_themes(tmp_path / "themes").problems

    assert problem.sentence == "The folder of themes cannot be read (Not a directory)."
