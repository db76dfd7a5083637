"""What fuzzing has found to reach some code of the readers holds again, each time."""

from __future__ import annotations

import pytest

from tests.fuzz.explore import CORPUS
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_every_input_of_the_corpus_is_read_to_an_error_or_an_end(name: str) -> None:
    inputs = sorted((CORPUS / name).iterdir())
    assert inputs
    for input_ in inputs:
        TARGETS[name](input_.read_bytes())
