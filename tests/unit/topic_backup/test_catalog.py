"""Which generation of a topic is restored: never one that the topic was not at the time asked."""

from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.errors import Refused, UsageError
from breakglass.services.pipeline.restore.options import RestoreOptions
from breakglass.services.pipeline.restore.plan import before_all, chosen_topics
from breakglass.services.topic_backup.catalog import (
    BEGUN,
    GenerationReach,
    HeldTopic,
    chosen_generation,
    held_topics,
    reach_of,
)
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.folder_contents import read_held
from breakglass.services.topic_backup.store.store import LocalStore
from tests.unit.topic_backup.backups import ORDERS, back_up
from tests.unit.topic_backup.shapes import run

STORE = LocalStore(Path("/backups"))


def generation(number: int, begun: int | None, first: int, last: int, end: int) -> GenerationReach:
    return GenerationReach(HeldTopic("orders", number, STORE), begun, first, last, {0: end}, end)


OLD = generation(1, None, 100, 200, 1000)
NEW = generation(2, 300, 250, 400, 500)
OF_OLDER_RELEASES = replace(NEW, begun_ms=None)


@pytest.mark.parametrize("newest", [NEW, OF_OLDER_RELEASES], ids=["begun is known", "unknown"])
def test_b27_a_point_before_the_newest_generation_is_never_restored_from_it(
    newest: GenerationReach,
) -> None:
    for limits in ({"until_ms": 150}, {"until_ms": 199}, {"until_offset": 900}):
        with pytest.raises(Refused, match="--generation 1, or --generation 2"):
            chosen_generation([OLD, newest], **limits)
        assert chosen_generation([OLD, newest], 1, **limits) is OLD
        assert chosen_generation([OLD, newest], 2, **limits) is newest
    with pytest.raises(Refused):
        # After the last record of the deleted topic, and before the first of the other.
        chosen_generation([OLD, newest], until_ms=220)
    for later in ({}, {"until_ms": 350}, {"until_offset": 1001}):
        assert chosen_generation([OLD, newest], **later) is newest
    with pytest.raises(Refused):
        chosen_generation([GenerationReach(OLD.topic), OF_OLDER_RELEASES], until_ms=350)
    with pytest.raises(UsageError):
        chosen_generation([OLD, newest], 3)


def test_b27_a_restore_that_its_limits_leave_nothing_of_says_so(tmp_path: Path) -> None:
    back_up(tmp_path, run(0, 20))
    later = replace(ORDERS, topic="orders~2", origin={BEGUN: "1700000000100"})
    back_up(tmp_path, run(100, 120), identity=later)
    held = held_topics(LocalStore(tmp_path))
    assert [reach_of(one).begun_ms for one in held] == [None, 1_700_000_000_100]
    wanted, others = chosen_topics(held, RestoreOptions())
    assert [one.generation for one in wanted] == [2]
    assert "20 records" in others["orders"][0]
    (first,), _ = chosen_topics(held, RestoreOptions(generation=1, until_ms=5))
    assert first.generation == 1
    there = read_held(LocalFolder(tmp_path / "orders~2"), "orders")
    limits = RestoreOptions(until_ms=1_700_000_000_050)
    assert before_all(there, limits, {0: ()})
    assert not before_all(there, limits, {0: ((100, 101),)})
    assert not before_all(there, RestoreOptions(), {0: ()})
