"""A secret shows itself to `reveal` alone."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle

import pytest

from breakglass.services.connection.secret import Secret

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


def test_reveal_gives_the_value() -> None:
    assert Secret(SENTINEL).reveal() == SENTINEL


def test_json_refuses_it() -> None:
    with pytest.raises(TypeError):
        json.dumps({"password": Secret(SENTINEL)})


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_refuses_it(protocol: int) -> None:
    with pytest.raises(TypeError, match="not written anywhere"):
        pickle.dumps(Login("ops", Secret(SENTINEL)), protocol)


def test_copies_and_asdict_keep_it_a_secret() -> None:
    login = Login("ops", Secret(SENTINEL))
    assert copy.deepcopy(login) == copy.copy(login) == login
    assert isinstance(dataclasses.asdict(login)["password"], Secret)


def test_it_has_no_attributes_to_list() -> None:
    assert not hasattr(Secret(SENTINEL), "__dict__")


def test_equal_values_are_equal_secrets_and_never_equal_to_text() -> None:
    assert Secret("a") == Secret("a")
    assert hash(Secret("a")) == hash(Secret("a"))
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"


def test_an_empty_secret_is_false() -> None:
    assert not Secret("")
    assert Secret(" ")
