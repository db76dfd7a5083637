"""Decode keys and values that were serialized with a schema registry.

::

    Framed =>
      Magic    => int8     0
      SchemaId => int32
      Payload  => bytes    Avro; or message indexes and Protobuf; or JSON

confluent-kafka's deserializers read the payload. The registry is asked only for schemas, and
only for bytes that begin with this frame.
"""

from __future__ import annotations

import base64
import json
import struct
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from breakglass.services import patience
from breakglass.services.divergence.align import RecordPair
from breakglass.services.divergence.entry import Content, Item, RecordEntry
from breakglass.services.errors import UsageError
from breakglass.services.extras import missing

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

FRAME = struct.Struct(
    ">b"  # Magic    => int8
    "i"  # SchemaId => int32
)
MAGIC = 0
MOST_INDEXES = 100
"""How deeply Protobuf messages may be nested."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded key or value."""

    text: bytes
    """The content as JSON."""
    how: str
    """``Avro, schema 17``."""


@dataclass(frozen=True, slots=True)
class DecodedPair:
    """A pair of records whose keys and values are JSON if a schema describes them."""

    pair: RecordPair
    notes: tuple[str, ...]
    """The schemas that were used, or why decoding failed."""
    any: bool
    """Whether any key or value was decoded."""


class Schemas:
    """Decodes keys and values with the schemas of one registry."""

    def __init__(self, url: str) -> None:
        """Create clients for *url*; they connect only when something is decoded.

        Raises:
            MissingExtra: the client library is not installed.
            UsageError: *url* is not a URL.
        """
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
        except ModuleNotFoundError as error:
            raise missing("schemas", str(error.name)) from None
        try:
            settings = {"url": url, "timeout": patience.BRIEF, "max.retries": 1}
            self._client: SchemaRegistryClient = SchemaRegistryClient(settings)
            # A client caches a schema by its id alone, whatever format was requested, so each
            # format needs a client.
            self._serialized: SchemaRegistryClient = SchemaRegistryClient(settings)
        except ValueError as error:
            raise UsageError(f"{url} is no schema registry's URL ({error}): correct it.") from None
        self._lock = threading.Lock()
        """Guards decoding: deserializers cache parsed schemas."""

    def pair(self, pair: RecordPair, topic: str) -> DecodedPair:
        """Decode the keys and values of *pair* that were read completely."""
        notes: dict[str, None] = {}
        before = pair
        sides = [self._item(entry, topic, notes) for entry in (pair.left, pair.right)]
        pair = pair._replace(left=sides[0], right=sides[1])
        changed = (pair.left, pair.right) != (before.left, before.right)
        return DecodedPair(pair, tuple(notes), changed)

    def _item(self, item: Item | None, topic: str, notes: dict[str, None]) -> Item | None:
        if not isinstance(item, RecordEntry):
            return item
        key = self._content(item.key, topic, notes, of_key=True)
        value = self._content(item.value, topic, notes, of_key=False)
        return item._replace(key=key, value=value)

    def _content(
        self, content: Content | None, topic: str, notes: dict[str, None], *, of_key: bool
    ) -> Content | None:
        if content is None or not is_framed(content.kept):
            return content
        if content.size > len(content.kept):
            notes[f"{content.size:,} bytes are too many to be decoded"] = None
            return content
        found = self.decode(content.kept, topic, of_key=of_key)
        notes[found.how if isinstance(found, Decoded) else found] = None
        if not isinstance(found, Decoded):
            return content
        return Content(found.text, len(found.text))

    def decode(self, data: bytes, topic: str, *, of_key: bool = False) -> Decoded | str:
        """Decode *data*, which begin with the frame; return the reason if that fails."""
        from confluent_kafka import KafkaException
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        (_, id) = FRAME.unpack_from(data)
        try:
            with self._lock:
                return self._decode(data, id, topic, of_key)
        except SchemaRegistryError as error:
            return f"schema {id}: the registry says {error.error_message}"
        except KafkaException as error:
            return f"schema {id}: {error}"
        except Exception as error:  # noqa: BLE001 -- bytes and schemas are not trusted
            return f"schema {id}: it does not fit ({type(error).__name__}: {error})"

    def _decode(self, data: bytes, id: int, topic: str, of_key: bool) -> Decoded:
        from confluent_kafka.serialization import MessageField, SerializationContext

        context = SerializationContext(topic, MessageField.KEY if of_key else MessageField.VALUE)
        kind = str(self._client.get_schema(id).schema_type)
        if kind == "AVRO":
            from confluent_kafka.schema_registry.avro import AvroDeserializer

            told = AvroDeserializer(self._client)(data, context)
            return Decoded(_json(told), f"Avro, schema {id}")
        if kind == "PROTOBUF":
            return Decoded(_json(self._protobuf(data, id, context)), f"Protobuf, schema {id}")
        return Decoded(data[FRAME.size :], f"JSON, schema {id}")

    def _protobuf(self, data: bytes, id: int, context: Any) -> Any:
        from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
        from google.protobuf.json_format import MessageToDict
        from google.protobuf.message_factory import GetMessageClass

        held: Any = self._serialized.get_schema(id, fmt="serialized")
        # The descriptor of a schema's file, in a pool with all files that it imports.
        from google.protobuf.descriptor_pool import DescriptorPool

        pool = DescriptorPool()
        descriptor = _message(
            pool.FindFileByName(self._add(pool, held, None)), message_indexes(data)
        )
        read = ProtobufDeserializer(
            GetMessageClass(descriptor), {"use.deprecated.format": False}, self._client
        )
        return MessageToDict(read(data, context), preserving_proto_field_name=True)

    def _add(self, pool: Any, schema: Any, name: str | None) -> str:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        file = FileDescriptorProto.FromString(base64.b64decode(schema.schema_str))
        file.name = name or file.name or "schema.proto"
        for reference in schema.references or ():
            held = self._serialized.get_version(
                reference.subject, reference.version, fmt="serialized"
            )
            self._add(pool, held.schema, reference.name)
        for imported in file.dependency:
            _add_well_known(pool, imported)
        pool.Add(file)
        return str(file.name)


def is_framed(data: bytes) -> bool:
    """Whether *data* begin with the frame of a schema registry."""
    return len(data) >= FRAME.size and data[0] == MAGIC


def message_indexes(data: bytes) -> list[int]:
    """The path to the Protobuf message type within its schema: one index for each level.

    Raises:
        ValueError: the bytes contain no valid indexes.
    """
    at = FRAME.size
    count, at = _varint(data, at)
    if not 0 <= count <= MOST_INDEXES:
        raise ValueError(f"a message cannot lie {count} levels deep")
    found = []
    for _ in range(count):
        index, at = _varint(data, at)
        found.append(index)
    return found or [0]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    raw = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        raw |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at
    raise ValueError("the indexes of the message are cut")


def _message(file: Any, indexes: list[int]) -> Any:
    messages = list(file.message_types_by_name.values())
    found = messages[indexes[0]]
    for index in indexes[1:]:
        found = found.nested_types[index]
    return found


def _add_well_known(pool: Any, name: str) -> None:
    """Add one of Google's well-known files, which registries do not store."""
    from importlib import import_module

    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if not name.startswith("google/") or not name.endswith(".proto"):
        return
    module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    file = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    for imported in file.dependency:
        _add_well_known(pool, imported)
    pool.Add(file)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=_plain).encode("utf-8", "replace")


def _plain(value: Any) -> str:
    """Convert a value that JSON lacks: bytes to base64, times and decimals to text."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
