"""The latest value of each key: what compaction would leave, without deletions."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from breakglass.services.pipeline.restore.plan import latest_records
from breakglass.services.pipeline.restore.task import runs_within
from breakglass.services.pipeline.stored_segments import stored_segments
from breakglass.services.topic_backup.folder import LocalFolder
from tests.kit.extent import examples
from tests.unit.topic_backup.backups import back_up, manifest_of
from tests.unit.topic_backup.shapes import plain

LONG = b"x" * 40


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    of=st.lists(
        st.tuples(
            st.sampled_from([None, b"", b"a", b"b", LONG, LONG + b"y"]),
            st.sampled_from([None, b"", b"v", b"w"]),
            st.integers(1, 3),
        ),
        min_size=1,
        max_size=25,
    )
)
def test_they_are_those_that_a_reader_would_remember(
    of: list[tuple[bytes | None, bytes | None, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    offset, records = 0, []
    for key, value, step in of:
        offset += step
        records.append(plain(offset, key=key)._replace(value=value))
    remembered = {record.key: record for record in records if record.key is not None}
    wanted = sorted(one.offset for one in remembered.values() if one.value is not None)
    root = tmp_path_factory.mktemp("b")
    topic = back_up(root, records, max_segment_bytes=100)
    segments = stored_segments(LocalFolder(topic), manifest_of(topic).partitions[0].segments)
    found = latest_records(segments, ((0, offset + 1),))
    runs = runs_within(segments, found.spans)
    assert [int(at) for run in runs for at in run.offsets] == wanted
    assert sum(found.left_out.values()) == len(records) - len(wanted)
