"""The options that are typed on the screen: read as the command reads them, refused with a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.checkpoint.option_text import (
    RestoreAsked,
    TakeAsked,
    new_names,
    restore_asked,
    same_again,
    take_asked,
)
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level
from breakglass.services.errors import UsageError
from tests.unit.checkpoint.store.stores import completed


def test_everything_that_can_be_asked_of_a_take_is_read() -> None:
    text = (
        "--topics a,b --group 'x y=exactly-once' --group z=at-least-once --level verified "
        "--max-rate 20MB/s --drain 5 --control-topic c"
    )
    groups = {"x y": GroupPolicy.EXACTLY_ONCE, "z": GroupPolicy.AT_LEAST_ONCE}
    assert take_asked(text) == TakeAsked(("a", "b"), groups, Level.VERIFIED, 20e6, 5.0, "c")
    assert take_asked("--topics a") == TakeAsked(("a",))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "No topic is named"),
        ("--topics ''", "No topic is named"),
        ("a,b", "a,b is no option here: there are --topics"),
        ("--topics a --group b", "not written NAME="),
        ("--topics a --level strict", "--level 'strict' is none"),
        ("--topics a --max-rate fast", "is no rate"),
        ("--topics a --drain 0", "is no time"),
        ("--topics a --drain soon", "is no time"),
        ("--topics a --topics b", "there twice"),
        ("--topics 'a", "close what is quoted"),
        ("--topics", "--topics has no value"),
        ("--topics a --hold-retention", "no option here"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_to_write(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        take_asked(text)


def test_everything_that_can_be_asked_of_a_restore_is_read() -> None:
    found = restore_asked("--map a=b --map c=d --suffix -2 --resume --control-topic e")
    assert found == RestoreAsked({"a": "b", "c": "d"}, "-2", resume=True, control_topic="e")
    assert restore_asked("") == RestoreAsked()


def test_a_suffix_is_for_the_topics_that_have_no_name_of_their_own(tmp_path: Path) -> None:
    store = BackupStore(str(tmp_path))
    completed(store, 1)
    found = store.read(1)
    assert found is not None
    topics = {one.subject.topic for one in found.partitions if one.subject}
    assert new_names(found, {}, "") == {}
    assert new_names(found, {}, "-2") == {one: f"{one}-2" for one in topics}
    assert new_names(found, {"x": "y"}, "")["x"] == "y"


def test_the_same_again_is_what_was_asked_for(tmp_path: Path) -> None:
    store = BackupStore(str(tmp_path))
    completed(store, 1)
    found = store.read(1)
    assert found is not None
    assert found.take is not None
    asked = take_asked(same_again(found))
    assert asked.topics == tuple(sorted({one.topic for one in found.take.partitions}))
    assert (asked.groups, asked.level) == (found.take.groups, found.take.level)
