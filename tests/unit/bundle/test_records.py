"""Records in a bundle: compared as live ones are, and without contents nobody asked for."""

import json
from base64 import b64encode

from breakglass.services.bundle.archive import MOST_LINE_BYTES, decode, encode
from breakglass.services.bundle.records import (
    MOST_CONTENT,
    WITHHELD,
    BundledRecords,
    BundledSource,
    ContentRules,
    bundled,
)
from breakglass.services.divergence.align import Comparison
from breakglass.services.divergence.source import (
    Content,
    Extent,
    HeaderList,
    Reading,
    RecordEntry,
    UnreadableRange,
)
from breakglass.services.model import TopicPartition
from tests.unit.divergence.streams import entries, entry

ORDERS = TopicPartition("orders", 0)
SECRET = b"4111-1111-1111-1111"
CARD = json.dumps({"name": "n", "card": SECRET.decode(), "deep": [{"Card": "x"}]}).encode()


def held(
    items: list[RecordEntry], rules: ContentRules, start: int = 100, most: int = 50
) -> BundledRecords:
    """*items* as they come out of a bundle."""
    within = Extent(start, items[-1].offset + 1)
    made = bundled(ORDERS, 1, within, iter(items), most, rules)
    return decode(BundledRecords, json.loads(json.dumps(encode(made))))


def source(found: BundledRecords, end: int | None = None, name: str = "b1") -> BundledSource:
    return BundledSource(name, Extent(0, found.end if end is None else end), found)


def test_two_replicas_differ_in_a_bundle_where_they_differ_alive() -> None:
    rules = ContentRules()
    ours = held(entries(100, 105), rules)
    theirs = held([*entries(100, 102), entry(102, b"another"), entry(103, epoch=6)], rules)
    pairs = Comparison(source(ours), source(theirs)).pairs(100, 105, Reading())
    assert "".join(pair.kind.value for pair in pairs) == "==!!<"


def test_offsets_that_the_bundle_lacks_are_unread_and_not_missing() -> None:
    rules = ContentRules()
    part = source(held(entries(100, 110), rules, most=4), end=110)
    found = list(part.read(90, 110, Reading()))
    assert [item.offset for item in found if isinstance(item, RecordEntry)] == [100, 101, 102, 103]
    gaps = [(item.start, item.end) for item in found if isinstance(item, UnreadableRange)]
    assert gaps == [(90, 100), (104, 110)]
    nothing = list(BundledSource("b2", Extent(0, 9), None).read(0, 9, Reading()))
    assert [(type(item), item.end) for item in nothing] == [(UnreadableRange, 9)]  # type: ignore[union-attr]


def test_contents_stay_out_unless_their_topic_is_asked_for() -> None:
    header = HeaderList(((Content(b"trace", 5), Content(SECRET, len(SECRET))),), 1)
    item = entry(100, SECRET)._replace(headers=header, key=Content(SECRET, len(SECRET)))
    without = encode(held([item], ContentRules(topics=("payments*",))))
    record = without["records"][0]
    contents = (record["key"], record["value"], record["headers"][0]["value"])
    assert [content["kept"] for content in contents] == [None, None, None]
    told = json.dumps(without).encode()
    assert [form for form in (SECRET, b64encode(SECRET)) if form in told] == []
    assert [record["value"]["size"], record["headers"][0]["name"]] == [len(SECRET), "trace"]
    (asked,) = held([item], ContentRules(topics=("ord*",))).records
    assert asked.value is not None
    assert (asked.value.kept, asked.headers[0].value) == (SECRET, asked.key)


def test_contents_of_one_replica_are_bounded_and_the_rest_is_not_called_read() -> None:
    long = b"x" * (2 * MOST_CONTENT)
    many = [item._replace(value=Content(long, len(long))) for item in entries(100, 300)]
    found = held(many, ContentRules(topics=("*",)), most=200)
    assert 128 <= len(found.records) < 150
    assert found.end == found.records[-1].offset + 1
    assert len(json.dumps(encode(found))) < MOST_LINE_BYTES


def test_marks_of_two_bundles_say_nothing_of_each_other() -> None:
    one, other = (held([entry(100, SECRET)], ContentRules()).records[0].value for _ in range(2))
    assert one is not None
    assert other is not None
    assert one.mark != other.mark


def test_a_rule_blackens_fields_and_headers_and_withholds_what_it_cannot_read() -> None:
    rules = ContentRules(topics=("*",), redacted=("*card*",))
    header = HeaderList(((Content(b"X-Card", 6), Content(CARD, len(CARD))),), 1)
    plain = entry(101, SECRET)._replace(key=Content(b'"4111"', 6))
    first, second = held([entry(100, CARD)._replace(headers=header), plain], rules).records
    assert first.value is not None
    assert json.loads(first.value.kept or b"") == {
        "name": "n",
        "card": WITHHELD,
        "deep": [{"Card": WITHHELD}],
    }
    assert [first.headers[0].value and first.headers[0].value.kept] == [None]
    assert (second.value and second.value.kept, second.key and second.key.kept) == (None, None)
