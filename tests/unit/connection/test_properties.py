"""Client properties: Java's syntax, and the place of each value in what is said of it."""

from pathlib import Path

import pytest

from breakglass.services.connection.properties import Properties, Property, overlay, read_properties
from breakglass.services.connection.secret import Secret
from breakglass.services.errors import BadConnectionSettings


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


def test_a_file_is_latin_1_and_a_broken_escape_is_refused_with_its_line(file: Path) -> None:
    file.write_bytes(b"sasl.username=caf\xe9")
    assert read_properties(file).text("sasl.username") == "café"
    file.write_text("a=1\nb=C:\\users\n")
    with pytest.raises(BadConnectionSettings, match=r"client\.properties line 2"):
        read_properties(file)
    file.unlink()
    with pytest.raises(BadConnectionSettings, match=r"client\.properties"):
        read_properties(file)


def test_each_value_knows_its_line_through_comments_and_continued_lines(file: Path) -> None:
    file.write_text("# comment\r\n\r\na=1\\\r\n  2\nb=3\rc=4\n")
    read = read_properties(file)
    assert {key: entry.origin for key, entry in read.items()} == {
        "a": "client.properties line 3",
        "b": "client.properties line 5",
        "c": "client.properties line 6",
    }


def test_values_are_trimmed_as_configdef_does_passwords_too() -> None:
    read = properties(ssl_key_password=" \tpass word \n", client_id="  ")
    assert read.secret("ssl.key.password") == Secret("pass word")
    assert read.text("client.id") is None
    assert read.raw("client.id") == ""


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "ten", "²", "1_000"])
def test_a_number_that_is_none_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(BadConnectionSettings, match=r"^here line 1: request\.timeout\.ms"):
        properties(request_timeout_ms=text).number("request.timeout.ms", 5)


def test_the_first_source_that_has_a_key_wins_and_security_comes_from_one_together() -> None:
    first = properties("first", ssl_truststore_location="/new.pem", client_id="x", a="1")
    second = properties(
        "second", sasl_jaas_config="old", security_protocol="SASL_SSL", a="2", c="3"
    )
    merged = overlay([properties("flags", b="2"), first, second], "all")
    assert set(merged) == {"b", "ssl.truststore.location", "client.id", "a", "c"}
    assert (merged.name, merged.text("a")) == ("first", "1")
