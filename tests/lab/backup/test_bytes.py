"""What Spark writes is what an independent client reads, byte for byte."""

from breakglass.services.lab.cluster import Cluster
from tests.lab.backup.backups import BackUp
from tests.lab.backup.producing import committed_bytes, make, numbered, produce


def test_a_large_record_behind_many_small_ones_is_copied_with_them_once(
    whole_broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(6000))
    produce(whole_broker, topic, iter([{"key": None, "value": b"x" * 20_000}]))
    produce(whole_broker, topic, numbered(10))
    report = back_up.topic(topic)
    assert back_up.bytes(topic) == committed_bytes(whole_broker, topic)
    assert report.partitions[0].records == 6011
    (segment,) = back_up.manifest(topic).partitions[0].segments
    names = [name for name in back_up.folder(topic).names() if "records" in name]
    assert names == [f"{segment.prefix}_records"], "of the first attempt nothing is left"


def test_segments_are_closed_past_the_limit_and_named_by_their_first_offset(
    whole_broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(100))
    back_up.topic(topic, max_segment_bytes=1000)
    segments = back_up.manifest(topic).partitions[0].segments
    assert [segment.start_offset for segment in segments] == [
        segment.first_offset for segment in segments
    ]
    assert len(segments) > 3
    record_bytes = {segment.records_bytes - 1000 for segment in segments[:-1]}
    assert all(0 < over < 60 for over in record_bytes), "only the last record is past the limit"
    assert back_up.bytes(topic) == committed_bytes(whole_broker, topic)
