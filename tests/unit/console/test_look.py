"""The settings of the console: what cannot be used is named, and leaves the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.console.look import Settings, read_settings
from breakglass.services.session import Effort


def written(folder: Path, content: bytes) -> Settings:
    (folder / "console.toml").write_bytes(content)
    return read_settings(folder)


def test_without_a_file_there_are_no_settings_and_no_problems(tmp_path: Path) -> None:
    assert read_settings(tmp_path) == Settings()


def test_every_setting_is_read(tmp_path: Path) -> None:
    content = (
        b'theme = "nord"\nmouse = false\nascii = true\nrefresh-seconds = 5\n'
        b'backups = ["/mnt/a", "/mnt/b"]\nverify-contents = "off"\n'
    )

    settings = Settings("nord", False, True, 5.0, ("/mnt/a", "/mnt/b"), Effort.OFF)
    assert written(tmp_path, content) == settings


@pytest.mark.parametrize("places", ['"/mnt/a"', "[1]", "{}"])
def test_places_of_backups_are_a_list_of_texts(tmp_path: Path, places: str) -> None:
    settings = written(tmp_path, f"backups = {places}".encode())

    assert (settings.backups, len(settings.problems)) == ((), 1)


def test_a_setting_that_cannot_be_used_leaves_the_others(tmp_path: Path) -> None:
    settings = written(tmp_path, b'theme = "nord"\nmouse = "yes"\nmouze = true\n')

    assert (settings.theme, settings.mouse) == ("nord", None)
    assert [problem.split("'")[1] for problem in settings.problems] == ["mouse", "mouze"]


@pytest.mark.parametrize("seconds", ["0", "0.5", "3601", "nan", "inf", "true", '"5"'])
def test_refreshes_are_neither_too_close_nor_too_far_apart(tmp_path: Path, seconds: str) -> None:
    settings = written(tmp_path, f"refresh-seconds = {seconds}".encode())

    assert settings.refresh_seconds is None
    assert len(settings.problems) == 1


@pytest.mark.parametrize("content", [b"theme = ", b'"\xff"'], ids=["no TOML", "no UTF-8"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    assert len(written(tmp_path, content).problems) == 1


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "console.toml").mkdir()
    assert len(read_settings(tmp_path).problems) == 1
