"""Values that must never be shown (passwords, keys, tokens), and the JAAS line that has them."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn, Self
from urllib.parse import unquote

SHORTEST_MASKED = 4
"""Characters: a shorter secret would mask words that are none."""
_CODED = re.compile(r"[A-Za-z0-9+/_-]{5,}={0,2}")
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_SECRET_VARIABLE = re.compile(r"(?i)AWS_|.*(KEY|SECRET|PASSW|TOKEN|CREDENTIAL|JAAS)")


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """*environ* for a program that needs no secret: without variables whose names say such."""
    return {name: value for name, value in environ.items() if not _SECRET_VARIABLE.match(name)}


class Secret:
    """A string that only `reveal` shows.

    ``repr``, ``str``, formatting and tracebacks with local variables show ``***``. ``json`` and
    ``pickle`` raise TypeError, so that the program stops before it writes a secret into a journal
    or a report.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself; pass it directly to its user, and never keep it in a variable."""
        return self._value

    def masked_in(self, text: str) -> str:
        """A foreign *text* without this value, which its author may have been sent.

        Neither as it is, nor in base64, hexadecimal or percent-encoded, nor between escapes and
        other characters that are not seen.
        """
        value = self._value
        if len(value) < SHORTEST_MASKED:
            return text
        # Also as Python's own errors quote it.
        text = text.replace(value, "***").replace(repr(value)[1:-1], "***")
        text = _CODED.sub(lambda coded: "***" if self._is_in(coded[0]) else coded[0], text)
        seen = "".join(filter(str.isprintable, _SEQUENCE.sub("", text)))
        return "***" if value in seen or value in unquote(text) else text

    def _is_in(self, coded: str) -> bool:
        """Whether the bytes that *coded* stands for have this value."""
        value = self._value.encode()
        base = coded.rstrip("=").translate(str.maketrans("+/", "-_"))
        with suppress(ValueError):
            if value in urlsafe_b64decode(base + "=" * (-len(base) % 4)):
                return True
        with suppress(ValueError):
            return value in bytes.fromhex(coded)
        return False

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return format("***", spec)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        import hmac

        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret is not written anywhere: leave it out of what is saved")


_PIECE = r"""
    (?P<space>[\x00-\x20]+|//[^\r\n]*|/\*.*?\*/)
  | (?P<quoted>"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')
  | (?P<word>[A-Za-z_$\xa0-\uffff][A-Za-z0-9_$.\-\xa0-\uffff]*)
  | (?P<mark>[=;])
"""
"""The tokens of JaasConfig.java's StreamTokenizer, which does not accept a number as a value.

Compiled only when a line is read: compiling takes longer than parsing the line.
"""

_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """A login module and its options."""

    module: str
    """Class name."""
    options: Mapping[str, Secret]

    @property
    def simple_name(self) -> str:
        """The class name without its package."""
        return self.module.rpartition(".")[2]

    def text(self, option: str) -> str | None:
        """The option's value, or None when it is missing or blank."""
        secret = self.options.get(option)
        return (secret.reveal().strip() or None) if secret is not None else None


@dataclass(frozen=True, slots=True)
class JaasProblem:
    """Why a line is not a JAAS entry, in words that quote no option's value."""

    reason: str


def parse_jaas(line: Secret) -> JaasEntry | JaasProblem:
    """Read ``MODULE FLAG (OPTION=VALUE)* ;``.

    A value with characters other than letters, digits and ``_ $ . -`` needs double quotes. A
    problem is returned, not raised: a traceback would contain the password.
    """
    tokens = _tokens(line.reveal())
    if tokens is None:
        return JaasProblem("has an open quote or a value that needs double quotes around it")
    if len(tokens) < 2 or "" in (tokens[0].word, tokens[1].word):
        return JaasProblem("does not begin with a login module and the word required")
    if tokens[1].word.lower() not in ("required", "requisite", "sufficient", "optional"):
        return JaasProblem("lacks the word required behind the login module")
    return _entry(tokens[0].word, tokens[2:])


@dataclass(frozen=True, slots=True)
class _Token:
    word: str
    """Empty for a mark."""
    mark: str = ""


def _tokens(text: str) -> list[_Token] | None:
    pattern = re.compile(_PIECE, re.VERBOSE | re.DOTALL)
    tokens: list[_Token] = []
    end = 0
    while end < len(text):
        match = pattern.match(text, end)
        if match is None:
            return None
        end = match.end()
        if match["mark"]:
            tokens.append(_Token("", match["mark"]))
        elif match["quoted"]:
            tokens.append(_Token(_ESCAPE.sub(_unescape, match["quoted"][1:-1])))
        elif match["word"]:
            tokens.append(_Token(match["word"]))
    return tokens


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _NAMED.get(escaped, escaped)


def _entry(module: str, tokens: list[_Token]) -> JaasEntry | JaasProblem:
    options: dict[str, Secret] = {}
    position = 0
    while position < len(tokens) and tokens[position].mark != ";":
        option, equals, value = (tokens[position : position + 3] + [_Token("")] * 3)[:3]
        if option.mark or equals.mark != "=":
            return JaasProblem('has something that is not written OPTION="VALUE"')
        if value.mark or position + 2 >= len(tokens):
            return JaasProblem("has an option without a value")
        options[option.word] = Secret(value.word)
        position += 3
    if position >= len(tokens):
        return JaasProblem("does not end with a semicolon")
    if position < len(tokens) - 1:
        return JaasProblem("holds more than one login module; leave one")
    return JaasEntry(module, options)
