"""Files of settings and secrets that are none: a FIFO has no writer, a device has no end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from breakglass.console.look import FILE, read_settings
from breakglass.services.connection.oauth import obtain
from breakglass.services.connection.profiles import FOLDER, load_profile
from breakglass.services.connection.properties import Properties, Property, read_properties
from breakglass.services.connection.sasl import TokenFile
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.sources import BUILT_IN_PROVIDERS, expand
from breakglass.services.connection.tls import StoreProblem, trusted_from_file
from breakglass.services.errors import AuthenticationFailed, BadConnectionSettings
from breakglass.services.regular_file import SETTINGS_BYTES

pytestmark = pytest.mark.timeout(20)
"""A reader that waits for a FIFO's writer is stopped before the suite's own limit."""


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    """A sparse file, so that it takes no room."""
    with path.open("wb") as file:
        file.truncate(SETTINGS_BYTES + 1)


special = pytest.mark.parametrize("make", [fifo, device, huge])


@special
def test_a_properties_file_that_is_none_is_refused(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "client.properties")
    with pytest.raises(BadConnectionSettings, match=r"client\.properties cannot be read"):
        read_properties(tmp_path / "client.properties")


@special
def test_a_profile_that_is_none_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    (tmp_path / FOLDER).mkdir()
    make(tmp_path / FOLDER / "prod.toml")
    with pytest.raises(BadConnectionSettings, match=r"prod\.toml cannot be read"):
        load_profile("prod", tmp_path)


@special
@pytest.mark.parametrize("variable", ["${{file:{0}/s:key}}", "${{directory:{0}:s}}"])
def test_a_secret_in_a_file_that_is_none_has_no_value(
    tmp_path: Path, make: Callable[[Path], None], variable: str
) -> None:
    make(tmp_path / "s")
    held = {"k": Property(Secret(variable.format(tmp_path)), "f line 1")}
    with pytest.raises(BadConnectionSettings, match="has no value"):
        expand(Properties(held, "f"), {}, BUILT_IN_PROVIDERS)


@special
def test_a_token_or_a_trust_store_that_is_no_file_is_refused(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "held")
    with pytest.raises(AuthenticationFailed, match="put the token of OAUTHBEARER there"):
        obtain(TokenFile(tmp_path / "held"), 0.0)
    problem = trusted_from_file(tmp_path / "held", None)
    assert isinstance(problem, StoreProblem)
    assert "cannot be read" in str(problem)


@special
def test_settings_of_the_console_that_are_no_file_are_not_used(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / FILE)
    (problem,) = read_settings(tmp_path).problems
    assert "it cannot be read" in problem


@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd"])
def test_properties_that_the_shell_pipes_in_are_read(folder: str) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"sasl.username=ops\n")
    os.close(writing)
    try:
        assert read_properties(Path(folder, str(reading))).text("sasl.username") == "ops"
    finally:
        os.close(reading)
