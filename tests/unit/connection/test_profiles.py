"""Profiles: named connections in the user's config folder."""

from pathlib import Path

import pytest

from breakglass.services.connection.profiles import load_profile
from breakglass.services.errors import BadConnectionSettings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "profiles").mkdir()
    return tmp_path


def test_a_profile_that_is_unknown_a_path_or_in_two_files_is_refused(folder: Path) -> None:
    with pytest.raises(BadConnectionSettings, match=r"profiles\.toml"):
        load_profile("prod", folder)
    (folder / "profiles.toml").write_text("[prod]\n[test]\n")
    own = folder / "profiles" / "lab.toml"
    own.write_text('bootstrap.servers = "b1:9092"')
    profile = load_profile("lab", folder)
    assert profile.properties.text("bootstrap.servers") == "b1:9092"
    assert profile.properties["bootstrap.servers"].folder == folder / "profiles"
    with pytest.raises(BadConnectionSettings, match="lab, prod, test"):
        load_profile("prd", folder)
    (folder / "elsewhere.toml").touch()
    with pytest.raises(BadConnectionSettings):
        load_profile("../elsewhere", folder)
    own.rename(own.with_name("prod.toml"))
    with pytest.raises(BadConnectionSettings, match=r"profiles\.toml and prod\.toml"):
        load_profile("prod", folder)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[prod]\nclient.id = \n", "line 2, column 13"),
        ("prod = 1", "prod"),
        ("[prod]\nbroker-address = 1", "broker-address"),
        ("[prod]\ncommand-config = 1", "command-config"),
        ("[prod]\nclient.id = 1.5", "client.id"),
    ],
)
def test_a_file_that_cannot_work_has_its_place(folder: Path, text: str, said: str) -> None:
    (folder / "profiles.toml").write_text(text)
    with pytest.raises(BadConnectionSettings, match=said):
        load_profile("prod", folder)
