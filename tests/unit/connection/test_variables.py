"""Variables in settings: Kafka's config providers."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.connection.properties import Properties, Property
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.sources import BUILT_IN_PROVIDERS, expand
from breakglass.services.errors import BadConnectionSettings

PREFIX = "org.apache.kafka.common.config.provider."


def properties(values: dict[str, str]) -> Properties:
    held = {key: Property(Secret(value), f"f line {key}") for key, value in values.items()}
    return Properties(held, "f")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${env:PASSWORD}", "hunter2"),
        ('user="x" password="${env:PASSWORD}";', 'user="x" password="hunter2";'),
        ("${env:PASSWORD}${env:USER}", "hunter2ops"),
        ("${other:PASSWORD}", "${other:PASSWORD}"),
        ("$PASSWORD {env:PASSWORD}", "$PASSWORD {env:PASSWORD}"),
    ],
)
def test_the_environment_fills_in_variables(text: str, value: str) -> None:
    environ = {"PASSWORD": "hunter2", "USER": "ops"}
    assert expand(properties({"k": text}), environ, BUILT_IN_PROVIDERS).text("k") == value


def test_files_and_directories_fill_in_variables(tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text("password=pässword\n", encoding="utf-8")
    (tmp_path / "token").write_text("abc\n")
    read = properties(
        {
            "a": f"${{file:{tmp_path}/secrets.properties:password}}",
            "b": f"${{directory:{tmp_path}:token}}",
        }
    )
    filled = expand(read, {}, BUILT_IN_PROVIDERS)
    assert (filled.text("a"), filled.text("b")) == ("pässword", "abc")


@pytest.mark.parametrize(
    "text",
    [
        "${env:MISSING}",
        "${env:path:PASSWORD}",
        "${file:/nowhere:key}",
        "${directory:/nowhere:key}",
        "${directory:/etc:../etc/hostname}",
    ],
)
def test_a_variable_without_a_value_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(BadConnectionSettings, match=r"^f line k: k uses \$\{.*which has no value"):
        expand(properties({"k": text}), {"PASSWORD": "x"}, BUILT_IN_PROVIDERS)


def test_a_properties_file_declares_its_providers() -> None:
    declared = {
        "config.providers": "vars",
        "config.providers.vars.class": PREFIX + "EnvVarConfigProvider",
        "k": "${vars:PASSWORD}",
    }
    assert expand(properties(declared), {"PASSWORD": "x"}).text("k") == "x"


def test_undeclared_variables_stay_as_they_are() -> None:
    assert expand(properties({"k": "${env:HOME}"}), {"HOME": "/"}).text("k") == "${env:HOME}"


@pytest.mark.parametrize("name", [None, "com.example.VaultConfigProvider"])
def test_a_provider_we_do_not_have_is_refused(name: str | None) -> None:
    declared = {"config.providers": "vault", "config.providers.vault.class": name or ""}
    with pytest.raises(BadConnectionSettings, match=r"config\.providers\.vault\.class is .*only"):
        expand(properties(declared), {})
