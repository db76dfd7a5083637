"""A log as committed consumers see it, whatever transactions run through each other."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from breakglass.services.divergence.entry import RecordEntry
from breakglass.services.divergence.log_source import open_log
from breakglass.services.divergence.source import Reading
from breakglass.services.divergence.views import FOREVER, CommittedView, uncommitted
from breakglass.services.topic_backup.batches import ControlType, Marker
from tests.unit.divergence.streams import ListSource, entry
from tests.unit.divergence.test_log_source import write
from tests.unit.topic_backup.batch_bytes import CONTROL, TRANSACTIONAL, batch, control_record
from tests.unit.topic_backup.shapes import plain

READING = Reading()
ABORT, COMMIT = Marker(ControlType.ABORT, 1), Marker(ControlType.COMMIT, 1)


def written(offset: int, producer: int) -> RecordEntry:
    return entry(offset)._replace(producer_id=producer, transactional=True)


def ended(offset: int, producer: int, how: Marker) -> RecordEntry:
    return written(offset, producer)._replace(marker=how)


LOG = [
    entry(0),
    written(1, 7),
    written(2, 8),
    entry(3),
    written(4, 7),
    ended(5, 7, ABORT),
    written(6, 7),
    ended(7, 8, COMMIT),
    ended(8, 7, COMMIT),
    written(9, 8),
    entry(10),
]


def seen(start: int = 0, end: int = 20) -> list[int]:
    items = CommittedView(ListSource(LOG)).read(start, end, READING)
    return [item.offset for item in items if isinstance(item, RecordEntry)]


def test_aborted_and_undecided_records_and_markers_are_left_out() -> None:
    assert seen() == [0, 2, 3, 6, 10]


def test_a_stretch_knows_how_transactions_end_behind_it() -> None:
    assert seen(1, 5) == [2, 3]
    assert seen(6, 7) == [6]


def test_a_log_without_transactions_is_read_once() -> None:
    source = ListSource([entry(number) for number in range(10)])
    assert len(list(CommittedView(source).read(0, 10, READING))) == 10
    assert source.asked == [(0, 10)]


producers = st.sampled_from([7, 8])
steps = st.lists(st.tuples(producers, st.sampled_from(["write", "abort", "commit", "plain"])),
                 max_size=25)  # fmt: skip


def log_of(made: list[tuple[int, str]]) -> list[bytes]:
    """A batch of one record for each step."""
    found = []
    for offset, (producer, what) in enumerate(made):
        if what == "plain":
            found.append(batch([plain(offset)]))
        elif what == "write":
            found.append(batch([plain(offset)], flags=TRANSACTIONAL, producer=(producer, 0, 0)))
        else:
            marker = control_record(offset, int(what == "commit"))
            flags = CONTROL | TRANSACTIONAL
            found.append(batch([marker], flags=flags, producer=(producer, 0, -1)))
    return found


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(made=steps)
def test_headers_of_batches_tell_what_all_their_records_tell(
    tmp_path_factory: pytest.TempPathFactory, made: list[tuple[int, str]]
) -> None:
    folder = tmp_path_factory.mktemp("log")
    write(folder, 0, log_of(made))
    source = open_log("log", folder)
    entries = list(source.read(0, len(made), READING))
    assert uncommitted(source, READING) == uncommitted(ListSource(entries), READING)


def test_a_damaged_batch_leaves_the_rest_to_be_told_by_records(tmp_path: Path) -> None:
    made = [(7, "write"), (7, "abort"), (8, "plain"), (8, "write"), (8, "commit")]
    batches = log_of(made)
    batches[1] = batches[1][:-1] + bytes([batches[1][-1] ^ 1])
    write(tmp_path, 0, batches)
    assert uncommitted(open_log("log", tmp_path), READING) == {7: [(0, FOREVER)]}
