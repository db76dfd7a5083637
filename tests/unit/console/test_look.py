"""The settings of the console: what cannot be used is named, and leaves the rest."""

from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.console.look import Settings, read_settings
from breakglass.services.session import Effort


def written(folder: Path, content: bytes) -> Settings:
    (folder / "console.toml").write_bytes(content)
    return read_settings(folder)


def test_every_setting_is_read_and_without_a_file_there_are_none(tmp_path: Path) -> None:
    assert read_settings(tmp_path) == Settings()
    content = (
        b'theme = "nord"\nmouse = false\nascii = true\nrefresh-seconds = 5\n'
        b'backups = ["/mnt/a", "/mnt/b"]\nverify-contents = "off"\n'
        b'[keys]\ne = "f5"\n"?" = "d"\nd = "f12"\n'
    )
    keys = {"e": "f5", "?": "d", "d": "f12"}
    settings = Settings("nord", False, True, 5.0, ("/mnt/a", "/mnt/b"), Effort.OFF, keys)
    assert written(tmp_path, content) == settings


@pytest.mark.parametrize(
    "setting",
    [
        *(f"backups = {places}" for places in ('"/mnt/a"', "[1]", "{}")),
        *(f"refresh-seconds = {s}" for s in ("0", "0.5", "3601", "nan", "inf", "true", '"5"')),
        *('mouse = "yes"', "mouze = true"),
        *(f"keys = {keys}" for keys in ("true", "{ e = 5 }", '{ enter = "f5" }', '{ e = "esc" }')),
        *(f"keys = {keys}" for keys in ('{ e = "d" }', '{ e = "A", A = "e" }', '{ e = "f13" }')),
        'keys = { e = "f5", d = "f5" }',
    ],
)
def test_a_setting_that_cannot_be_used_is_named_and_leaves_the_others(
    tmp_path: Path, setting: str
) -> None:
    settings = written(tmp_path, f'theme = "nord"\n{setting}\n'.encode())
    assert replace(settings, problems=()) == Settings("nord")
    assert [problem.split("'")[1] for problem in settings.problems] == [setting.split()[0]]


@pytest.mark.parametrize("content", [b"theme = ", b'"\xff"', None], ids=repr)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    if content is None:
        (tmp_path / "console.toml").mkdir()
    found = read_settings(tmp_path) if content is None else written(tmp_path, content)
    assert len(found.problems) == 1
