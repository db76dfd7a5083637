"""Client properties: Java's syntax, and the place of each value in what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=5))
def test_what_java_would_write_is_read_back(values: dict[str, str]) -> None:
    written = "\n".join(f"{_escaped(key)}={_escaped(value)}" for key, value in values.items())
    from breakglass.services.connection.properties import _parse

    entries, broken_line = _parse(written.encode("latin-1"), "f")
    assert broken_line == 0
    assert {key: entry.value.reveal() for key, entry in entries.items()} == values


def _escaped(text: str) -> str:
    """Every character as \\uXXXX, which Properties.store may do."""
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def test_values_are_trimmed_as_configdef_does_passwords_too() -> None:
    read = properties(ssl_key_password=" \tpass word \n", client_id="  ")
    assert read.secret("ssl.key.password") == Secret("pass word")
    assert read.text("client.id") is None
    assert read.raw("client.id") == ""


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "ten", "²", "1_000"])
def test_a_number_that_is_none_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(BadConnectionSettings, match=r"^here line 1: request\.timeout\.ms"):
        properties(request_timeout_ms=text).number("request.timeout.ms", 5)


def test_a_choice_is_taken_in_any_case_and_refused_with_the_others() -> None:
    read = properties(security_protocol="sasl_ssl")
    assert read.choice("security.protocol", ("SSL", "SASL_SSL"), "SSL") == "SASL_SSL"
    with pytest.raises(BadConnectionSettings, match="SSL, PLAINTEXT"):
        read.choice("security.protocol", ("SSL", "PLAINTEXT"), "SSL")


def test_the_first_source_that_has_a_key_wins_and_security_comes_from_one_together() -> None:
    first = properties("first", ssl_truststore_location="/new.pem", client_id="x", a="1")
    second = properties(
        "second", sasl_jaas_config="old", security_protocol="SASL_SSL", a="2", c="3"
    )
    merged = overlay([properties("flags", b="2"), first, second], "all")
    assert set(merged) == {"b", "ssl.truststore.location", "client.id", "a", "c"}
    assert (merged.name, merged.text("a")) == ("first", "1")
