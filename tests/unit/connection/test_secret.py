"""A secret shows itself to `reveal` alone."""

import dataclasses
import pickle

import pytest

from breakglass.services.connection.secret import JaasEntry, JaasProblem, Secret, parse_jaas

SENTINEL = "s3ntinel-password"


@dataclasses.dataclass(frozen=True)
class Login:
    user: str
    password: Secret


@pytest.mark.parametrize(
    "shown",
    [
        repr(Secret(SENTINEL)),
        str(Secret(SENTINEL)),
        f"{Secret(SENTINEL)}",
        f"{Secret(SENTINEL):>20}",
        f"{Secret(SENTINEL)!r}",
        "%s" % Secret(SENTINEL),  # noqa: UP031 (one of the ways to be shown)
        repr([Secret(SENTINEL)]),
        repr(Login("ops", Secret(SENTINEL))),
    ],
)
def test_no_way_of_showing_it_shows_the_value(shown: str) -> None:
    assert SENTINEL not in shown
    assert "***" in shown


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_refuses_it(protocol: int) -> None:
    with pytest.raises(TypeError):
        pickle.dumps(Login("ops", Secret(SENTINEL)), protocol)


class TestJaas:
    """The JAAS line, token by token as JaasConfig.java reads it."""

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
            (
                '/* who */ username="ops" // rest\n password="x"',
                {"username": "ops", "password": "x"},
            ),
            ("", {}),
        ],
    )
    def test_options_are_read(self, options: str, values: dict[str, str]) -> None:
        entry = parse_jaas(Secret(f"{self.PLAIN} required {options};"))
        assert isinstance(entry, JaasEntry)
        assert {name: held.reveal() for name, held in entry.options.items()} == values
        assert entry.simple_name == "PlainLoginModule"

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("", "login module"),
            (PLAIN, "login module"),
            (f"{PLAIN} username=x;", "required"),
            (f"{PLAIN} required username=x", "semicolon"),
            (f"{PLAIN} required username=;", "value"),
            (f"{PLAIN} required username x;", "OPTION"),
            (f"{PLAIN} required username=1x;", "double quotes"),
            (f'{PLAIN} required username="open;', "open quote"),
            (f"{PLAIN} required username=x; {PLAIN} required;", "more than one"),
        ],
    )
    def test_what_is_no_entry_has_its_reason(self, line: str, reason: str) -> None:
        problem = parse_jaas(Secret(line))
        assert isinstance(problem, JaasProblem)
        assert reason in problem.reason
