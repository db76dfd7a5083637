"""A value that must never be seen: passwords, keys, tokens."""

from __future__ import annotations

from typing import NoReturn, Self


class Secret:
    """A string that only `reveal` shows.

    ``repr``, ``str``, formatting, tracebacks with local variables, ``json`` and ``pickle`` never
    do: the first ones print ``***``, the last two raise TypeError, so that a secret which finds
    its way into a journal entry or a report stops the program instead of being written.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself; hand it straight to what needs it, never keep it in a variable."""
        return self._value

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
