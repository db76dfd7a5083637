"""The JAAS line, token by token as JaasConfig.java reads it."""

from __future__ import annotations

import pytest

from breakglass.services.connection.secret import JaasEntry, JaasProblem, Secret, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ('username="ops" password="hunter2"', {"username": "ops", "password": "hunter2"}),
        ("username='ops' password=abc-1.2_$x", {"username": "ops", "password": "abc-1.2_$x"}),
        (r'password="a\"b\\c"', {"password": r'a"b\c'}),
        (r'password="\101\8\q\t"', {"password": "A8q\t"}),
        ('password="it\'s; = // fine"', {"password": "it's; = // fine"}),
        ('username="" ', {"username": ""}),
        ('/* who */ username="ops" // rest\n password="x"', {"username": "ops", "password": "x"}),
        ("", {}),
    ],
)
def test_options_are_read(options: str, values: dict[str, str]) -> None:
    entry = parse_jaas(Secret(f"{PLAIN} required {options};"))
    assert isinstance(entry, JaasEntry)
    assert {name: held.reveal() for name, held in entry.options.items()} == values
    assert entry.simple_name == "PlainLoginModule"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "does not begin with a login module"),
        (PLAIN, "does not begin with a login module"),
        (f"{PLAIN} username=x;", "lacks the word required"),
        (f"{PLAIN} required username=x", "does not end with a semicolon"),
        (f"{PLAIN} required username=;", "an option without a value"),
        (f"{PLAIN} required username x;", "not written OPTION"),
        (f"{PLAIN} required username=1x;", "needs double quotes"),
        (f'{PLAIN} required username="open;', "an open quote"),
        (f"{PLAIN} required username=x; {PLAIN} required;", "more than one login module"),
    ],
)
def test_what_is_no_entry_is_told_without_its_values(line: str, reason: str) -> None:
    problem = parse_jaas(Secret(line))
    assert isinstance(problem, JaasProblem)
    assert reason in problem.reason
