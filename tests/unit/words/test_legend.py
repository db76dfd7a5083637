"""The words of the lists are explained in a line each, on the screens as in the documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.model import Role
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.services.words.legend import LEGEND, Term

VERDICTS_PAGE = Path(__file__).parents[3] / "docs" / "verdicts.md"
WORDS = {term.word for term in LEGEND}
ROOM = 66
"""Characters beside the longest word in 80 columns."""


def test_every_verdict_and_every_role_outside_the_isr_is_explained() -> None:
    assert {verdict.value for verdict in Verdict} <= WORDS
    assert {role.value for role in Role} - {Role.ISR.value} <= WORDS
    assert {"Heard", "Unread"} <= WORDS


@pytest.mark.parametrize("term", LEGEND, ids=lambda term: term.word)
def test_a_word_takes_one_line_of_80_columns(term: Term) -> None:
    assert len(term.meaning) <= ROOM


@pytest.mark.parametrize("term", LEGEND, ids=lambda term: term.word)
def test_the_page_of_verdicts_says_the_same(term: Term) -> None:
    assert f"| `{term.word}` | {term.meaning} |" in VERDICTS_PAGE.read_text(encoding="utf-8")
