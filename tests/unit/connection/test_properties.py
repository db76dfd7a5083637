"""Client properties: Java's syntax, and the place of each value in what is said of it."""

from pathlib import Path

import pytest

from breakglass.services.connection.properties import Properties, Property, overlay, read_properties
from breakglass.services.connection.secret import Secret


def properties(name: str = "here", **values: str) -> Properties:
    """Settings from values whose keys have _ for a dot."""
    return Properties(
        {
            key.replace("_", "."): Property(Secret(value), f"{name} line {line}")
            for line, (key, value) in enumerate(values.items(), 1)
        },
        name,
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "client.properties"


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("a=b", "a", "b"),
        ("a:b", "a", "b"),
        ("a b", "a", "b"),
        ("a = b = c", "a", "b = c"),
        ("a : b", "a", "b"),
        ("  a\t=\tb", "a", "b"),
        ("a", "a", ""),
        ("a=b\\\n   c", "a", "bc"),
        ("a=b\\\r\n   c", "a", "bc"),
        ("a=b\\\\", "a", "b\\"),
        ("a\\=b=c", "a=b", "c"),
        ("a\\ b=c", "a b", "c"),
        ("a=\\u0062\\u00e9", "a", "bé"),
        ("a=x\\tb\\nc", "a", "x\tb\nc"),
        ("a=\\q", "a", "q"),
        ("a=1\na=2", "a", "2"),
        ("# a=0\n! a=0\n\na=1", "a", "1"),
        ("a=b # no comment", "a", "b # no comment"),
        ("a=\\\n# still the value", "a", "# still the value"),
    ],
)
def test_java_s_syntax_is_read(file: Path, text: str, key: str, value: str) -> None:
    file.write_bytes(text.encode())
    assert read_properties(file)[key].value.reveal() == value


def test_the_first_source_that_has_a_key_wins_and_security_comes_from_one_together() -> None:
    first = properties("first", ssl_truststore_location="/new.pem", client_id="x", a="1")
    second = properties(
        "second", sasl_jaas_config="old", security_protocol="SASL_SSL", a="2", c="3"
    )
    merged = overlay([properties("flags", b="2"), first, second], "all")
    assert set(merged) == {"b", "ssl.truststore.location", "client.id", "a", "c"}
    assert (merged.name, merged.text("a")) == ("first", "1")
