"""Values written with a schema registry: Avro, Protobuf and JSON, and whatever does not fit."""

import base64
import io
import json
import struct
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import pytest
from fastavro import schemaless_writer
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.timestamp_pb2 import Timestamp

from breakglass.services import patience
from breakglass.services.browse.schemas import Decoded, Schemas, message_indexes
from breakglass.services.divergence.align import PairKind, RecordPair
from breakglass.services.divergence.entry import RecordEntry, content_of
from tests.kit.deadlines import MOMENT
from tests.kit.raw_http import OK, raw_http
from tests.unit.browse.registry import registry
from tests.unit.divergence.streams import entry

FIELDS = {"id": "int", "note": "string", "seal": "bytes"}
TIME = {"type": "long", "logicalType": "timestamp-millis"}
AVRO = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": name, "type": kind} for name, kind in {**FIELDS, "at": TIME}.items()],
}


ENDLESS = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}
"""A list that may be as long as its writer likes."""


def proto_file() -> FileDescriptorProto:
    """``message First {} message Outer { message Inner { string name; Timestamp at; } }``."""
    file = FileDescriptorProto(name="payment.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    file.message_type.add(name="First")
    inner = file.message_type.add(name="Outer").nested_type.add(name="Inner")
    string, message = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_MESSAGE
    one = FieldDescriptorProto.LABEL_OPTIONAL
    inner.field.add(name="name", number=1, type=string, label=one)
    inner.field.add(
        name="at", number=2, type=message, label=one, type_name=".google.protobuf.Timestamp"
    )
    return file


def answers() -> dict[str, dict[str, Any]]:
    serialized = base64.b64encode(proto_file().SerializeToString()).decode()
    proto = {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"}
    return {
        "/schemas/ids/1": {"schema": json.dumps(AVRO)},
        "/schemas/ids/2": proto,
        "/schemas/ids/2?format=serialized": {**proto, "schema": serialized},
        "/schemas/ids/3": {"schema": "{}", "schemaType": "JSON"},
        "/schemas/ids/4": {"schema": json.dumps(ENDLESS)},
        "/schemas/ids/5": {"schema": '{"type": "array", "items": "null"}'},
        "/schemas/ids/6": {"schema": "[" * 100_000},
    }


@pytest.fixture(scope="module")
def schemas() -> Iterator[Schemas]:
    with registry(answers()) as url:
        yield Schemas(url)


def framed(id: int, payload: bytes) -> bytes:
    return struct.pack(">bi", 0, id) + payload


def avro_bytes() -> bytes:
    out = io.BytesIO()
    record = {"id": 7, "note": "café", "seal": b"\xff\x00", "at": 1_700_000_000_000}
    schemaless_writer(out, AVRO, record)
    return framed(1, out.getvalue())


def proto_bytes() -> bytes:
    """Message 0 within message 1, with the name Ann."""
    at = Timestamp(seconds=1_700_000_000).SerializeToString()
    return framed(2, b"\x04\x02\x00" + b"\x0a\x03Ann" + b"\x12" + bytes([len(at)]) + at)


def test_avro_nested_protobuf_and_json_are_read_by_their_schemas(schemas: Schemas) -> None:
    avro, proto = (schemas.decode(data, "orders") for data in (avro_bytes(), proto_bytes()))
    assert isinstance(avro, Decoded), avro
    told = json.loads(avro.text)
    assert (told["id"], told["note"], told["seal"]) == (7, "café", "/wA=")
    assert told["at"].startswith("2023-11-14 22:13:20")
    assert isinstance(proto, Decoded), proto
    assert json.loads(proto.text) == {"name": "Ann", "at": "2023-11-14T22:13:20Z"}
    assert (avro.how, proto.how) == ("Avro, schema 1", "Protobuf, schema 2")
    assert schemas.decode(framed(3, b'{"a": 1}'), "t") == Decoded(b'{"a": 1}', "JSON, schema 3")


@pytest.mark.parametrize(
    "data",
    [
        *(framed(99, b"x"), framed(1, b"\xff"), framed(2, b"\xff" * 20)),
        *(framed(2, b"\x04\x02\x12"), framed(4, b"\x02" * 60_000), framed(6, b"x")),
        framed(5, b"\xfe\xff\xff\xff\x3f\x00"),
    ],
    ids=["unknown", "torn", "indexes", "cut", "levels of Avro", "levels of schema", "nulls"],
)
def test_s46_what_cannot_be_decoded_says_why_and_the_next_is_decoded(
    schemas: Schemas, data: bytes
) -> None:
    """In this process the fifth would end the console, and the last fill the memory."""
    found = schemas.decode(data, "orders")
    assert isinstance(found, str)
    assert isinstance(schemas.decode(avro_bytes(), "orders"), Decoded)


HOSTILE: dict[str, Iterable[bytes]] = {
    "no HTTP": [b"\x1b]0;owned\x07\r\n\r\n"],
    "a torn body": [OK + b"Content-Length: 99\r\n\r\n{"],
    "a redirect elsewhere": [b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\n\r\n"],
    "more than its process may have": [
        OK + b"Content-Length: 4000000000\r\n\r\n",
        *([b" " * (1 << 20)] * 4_000),
    ],
    "an escape": [
        b"HTTP/1.1 404 No\r\nContent-Type: application/json\r\n\r\n"
        b'{"error_code": 1, "message": "\\u001b[2J own-password"}'
    ],
}


@pytest.mark.parametrize("pieces", HOSTILE.values(), ids=HOSTILE)
def test_s46_whatever_a_registry_answers_is_a_reason_without_its_password(
    pieces: Iterable[bytes],
) -> None:
    with raw_http(pieces) as (address, asked):
        found = Schemas(f"http://me:own-password@{address}").decode(avro_bytes(), "orders")
    assert isinstance(found, str)
    assert found.isprintable()
    assert "own-password" not in found
    assert asked


def test_s46_a_registry_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "REQUEST", MOMENT)
    monkeypatch.setattr(patience, "COMMAND", MOMENT)
    with raw_http(repeat(b"HTTP/1.1 100 Continue\r\n\r\n")) as (address, _):
        found = Schemas(f"http://{address}").decode(avro_bytes(), "orders")
    assert "in time" in str(found)


def test_keys_and_values_of_both_sides_are_decoded_and_the_rest_is_left(schemas: Schemas) -> None:
    one = entry(1)._replace(key=content_of(proto_bytes(), 512), value=content_of(avro_bytes(), 512))
    other = entry(1, b"plain")
    found = schemas.pair(RecordPair(1, PairKind.DIFFERENT, one, other), "orders")
    assert (found.any, found.notes) == (True, ("Protobuf, schema 2", "Avro, schema 1"))
    assert found.pair.right == other
    left = found.pair.left
    assert isinstance(left, RecordEntry)
    assert left.key is not None
    assert b'"Ann"' in left.key.kept
    assert not schemas.pair(RecordPair(1, PairKind.EQUAL, other, other), "orders").any


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x02", b"\x01", b"\xff" * 12])
def test_indexes_that_are_cut_are_no_indexes(data: bytes) -> None:
    with pytest.raises(ValueError, match="message"):
        message_indexes(framed(2, data))
