"""Decode keys and values that were serialized with a schema registry.

::

    Framed =>
      Magic    => int8     0
      SchemaId => int32
      Payload  => bytes    Avro; or message indexes and Protobuf; or JSON

confluent-kafka's deserializers read the payload. The registry is asked only for schemas, and
only for bytes that begin with this frame.

A registry and the writers of records choose how deeply and how often a payload nests: five thousand
levels of Avro end the process that reads them, and five bytes can be a list of a billion nulls. So
a process of its own decodes, with little memory, and is replaced where it ends or does not answer.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import select
import struct
import subprocess
import sys
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urlsplit

from breakglass.services import patience
from breakglass.services.connection.secret import Secret, without_secrets
from breakglass.services.divergence.align import RecordPair
from breakglass.services.divergence.source import Content, Item, RecordEntry
from breakglass.services.errors import UsageError
from breakglass.services.extras import need
from breakglass.services.words.inert import bounded, bounded_url

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

FRAME = struct.Struct(
    ">b"  # Magic    => int8
    "i"  # SchemaId => int32
)
MAGIC = 0
MOST_INDEXES = 100
"""How deeply Protobuf messages may be nested."""
MOST_REFERENCES = 100
"""Files that a Protobuf schema imports from the registry."""
MOST_MEMORY = 512 << 20
"""Bytes of the process that decodes."""
MOST_DECODED = 4 << 20
"""Bytes of one decoded key or value."""
SHOWN = 200
"""Characters of a foreign text in a reason."""


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
        """Remember *url*; a process begins, and connects, when something is decoded.

        Raises:
            MissingExtra: the client library is not installed.
            UsageError: *url* is not a URL.
        """
        need("schemas")
        try:
            parts = urlsplit(url)
            self._password = Secret(parts.password or "")
            usable = parts.scheme in ("http", "https") and parts.hostname
        except ValueError:
            usable = None
        if not usable:
            raise UsageError(
                f"{bounded_url(url, SHOWN)} is no schema registry's URL: give http://HOST:PORT."
            )
        self._url = Secret(url)
        self._lock = threading.Lock()
        """Guards the process, which answers one question at a time."""
        self._process: subprocess.Popen[bytes] | None = None

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
        asked = {"data": base64.b64encode(data).decode(), "topic": topic, "of_key": of_key}
        (_, id) = FRAME.unpack_from(data)
        with self._lock:
            answer = self._ask(json.dumps(asked).encode() + b"\n")
        if "text" in answer:
            return Decoded(base64.b64decode(answer["text"]), answer["how"])
        return f"schema {id}: {bounded(self._password.masked_in(answer['why']), SHOWN)}"

    def _ask(self, question: bytes) -> dict[str, str]:
        """The answer of the process, which is ended if it gives none."""
        seconds = patience.REQUEST
        if self._process is None:
            seconds += patience.COMMAND  # It imports its libraries before it answers.
            self._process = subprocess.Popen(
                # -P: no module of the current folder takes the place of a library.
                [sys.executable, "-P", "-m", "breakglass.services.browse.schemas"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=without_secrets(os.environ),
            )
            weakref.finalize(self, _end, self._process)
            question = json.dumps(self._url.reveal()).encode() + b"\n" + question
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        ends = time.monotonic() + seconds
        line = b""
        with suppress(OSError):
            process.stdin.write(question)
            process.stdin.flush()
            while not line.endswith(b"\n"):
                left = max(ends - time.monotonic(), 0)
                if not select.select([process.stdout], [], [], left)[0]:
                    break
                piece = process.stdout.read1()  # type: ignore[attr-defined]
                if not piece:
                    break
                line += piece
        if line.endswith(b"\n"):
            found: dict[str, str] = json.loads(line)
            return found
        over = time.monotonic() >= ends
        _end(process)
        self._process = None
        if over:
            return {"why": "the registry did not answer in time, or it takes too long to decode"}
        return {"why": "it cannot be decoded by its schema: nested too deeply, or too large"}


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


class _Decoder:
    def __init__(self, url: str) -> None:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        settings = {"url": url, "timeout": patience.BRIEF, "max.retries": 1}
        self._client: SchemaRegistryClient = SchemaRegistryClient(settings)
        # A client caches a schema by its id alone, whatever format was requested, so each
        # format needs a client.
        self._serialized: SchemaRegistryClient = SchemaRegistryClient(settings)

    def answer(self, data: bytes, topic: str, *, of_key: bool) -> Decoded | str:
        """Decode *data*, or return the reason if that fails."""
        from confluent_kafka import KafkaException
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        (_, id) = FRAME.unpack_from(data)
        try:
            found = self._decode(data, id, topic, of_key)
        except SchemaRegistryError as error:
            return f"the registry says {error.error_message}"
        except KafkaException as error:
            return str(error)
        except MemoryError:
            return f"it takes more than {MOST_MEMORY >> 20:,} MB to decode"
        except Exception as error:  # noqa: BLE001 -- bytes and schemas are not trusted
            return f"it does not fit ({type(error).__name__}: {error})"
        if len(found.text) > MOST_DECODED:
            return f"decoded it has more than {MOST_DECODED >> 20} MB"
        return found

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
        file = pool.FindFileByName(self._add(pool, held, None))
        first, *nested = message_indexes(data)
        descriptor = list(file.message_types_by_name.values())[first]
        for index in nested:
            descriptor = descriptor.nested_types[index]
        read = ProtobufDeserializer(
            GetMessageClass(descriptor), {"use.deprecated.format": False}, self._client
        )
        return MessageToDict(read(data, context), preserving_proto_field_name=True)

    def _add(self, pool: Any, schema: Any, name: str | None, left: int = MOST_REFERENCES) -> str:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        if left < 0:
            raise ValueError("its references do not end")
        file = FileDescriptorProto.FromString(base64.b64decode(schema.schema_str))
        file.name = name or file.name or "schema.proto"
        for reference in schema.references or ():
            held = self._serialized.get_version(
                reference.subject, reference.version, fmt="serialized"
            )
            left -= 1
            self._add(pool, held.schema, reference.name, left)
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


def _add_well_known(pool: Any, name: str) -> None:
    """Add one of Google's well-known files, which registries do not store."""
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


def answer_from(questions: BinaryIO, answers: BinaryIO) -> None:
    """Decode what is asked for, a line each, until nothing more is; the first line is the URL."""
    decoder = _Decoder(json.loads(questions.readline()))
    for line in questions:
        asked = json.loads(line)
        data = base64.b64decode(asked["data"])
        found = decoder.answer(data, asked["topic"], of_key=asked["of_key"])
        if isinstance(found, Decoded):
            told = {"text": base64.b64encode(found.text).decode(), "how": found.how}
        else:
            told = {"why": found[: 2 * SHOWN]}
        answers.write(json.dumps(told).encode() + b"\n")
        answers.flush()


def main() -> None:
    """Limit this process, then answer its parent."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    answer_from(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
