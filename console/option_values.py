"""What texts of options stand for: names with commas between, and pairs."""

from __future__ import annotations

from collections.abc import Sequence


def names_in(text: str | None) -> tuple[str, ...]:
    """The names in ``A,B``; none where nothing was given."""
    return tuple(filter(None, (one.strip() for one in (text or "").split(","))))


def pairs_in(
    given: Sequence[str] | None, option: str, *, form: str = "NAME=VALUE", empty: bool = False
) -> dict[str, str]:
    """What each *option* says, by the name before its first ``=``.

    Raises:
        UsageError: one is not of the *form*, or has no value and may not be *empty*.
    """
    from services.errors import UsageError

    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals and (value or empty)):
            raise UsageError(f"{option} {text!r} is not written {form}: write it so.")
        found[name] = value
    return found
