"""A soak of many sittings: what each one adds, and what all of them come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.lab.transactional.soak import Results, judged, seeds_left, summed


def line(seed: int, **other: Any) -> dict[str, Any]:
    fine = {"whole": True, "vector_whole": False, "refused": [], "lowered": 1}
    return {"workload": "bank", "seed": seed, **fine, **other}


def test_a_later_sitting_finds_the_rounds_of_its_workload(tmp_path: Path) -> None:
    results = Results(tmp_path / "soaks" / "results.jsonl")
    assert results.lines("bank") == []
    results.add(line(0))
    results.add(line(0, workload="streams"))
    results.add(line(1, refused=["a transaction stays open"]))
    found = Results(results.file).lines("bank")
    assert [each["seed"] for each in found] == [0, 1]
    assert summed("bank", found).startswith(
        "bank: 2 checkpoints restored, 0 inconsistent; 2 were lowered, 1 tries refused"
    )


def test_a_soak_is_right_if_all_are_whole_and_some_vector_is_not() -> None:
    assert judged([line(0), line(1, vector_whole=True)])
    assert not judged([line(0), line(1, whole=False)])
    assert not judged([line(0, vector_whole=True)])


def test_a_later_sitting_plays_the_seeds_that_are_left() -> None:
    assert seeds_left([line(0), line(3)], 0, 5) == [1, 2, 4]
    assert seeds_left([line(0), line(3)], 3, 5) == [4]
