"""The base of our own messages: decoding consumes all bytes of a message, or fails.

kafka-python's decoder ignores bytes after the schema's end and accepts a slice that is too short.
So bytes of another schema of the same api key could pass for an answer without this check.
"""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any

from breakglass.services.errors import MalformedMessage

if TYPE_CHECKING:

    class ApiMessage:
        """What we use of kafka-python's class, which is shipped without types."""

        API_KEY: int
        API_VERSION: int

        def __init_subclass__(cls, load_json: str | None = None) -> None: ...
        def __init__(self, **fields: Any) -> None: ...
        def __getattr__(self, field: str) -> Any: ...
        def encode(
            self, version: int | None = None, header: bool = False, framed: bool = False
        ) -> bytes | bytearray: ...
        @classmethod
        def decode(cls, data: bytes | memoryview, version: int, header: bool = False) -> Any: ...

else:
    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.schemas.fields.array import ArrayField
    from kafka.protocol.schemas.fields.struct_array import StructArrayField

    def _refusing_null(emit: Any) -> Any:
        """kafka-python decodes any array as None at a length of -1, whatever its schema says."""

        def emit_decode_from(
            field: Any, ctx: Any, name: str, indent: str, version: Any = None, **form: Any
        ) -> None:
            emit(field, ctx, name, indent, version=version, **form)
            if not field.nullable_for_version_q(version):
                ctx.emit(indent, f"if {name} is None:")
                ctx.emit(indent, "    raise ValueError('an array is null')")

        return emit_decode_from

    for _array in (ArrayField, StructArrayField):
        _array.emit_decode_from = _refusing_null(_array.emit_decode_from)

__all__ = ["ApiMessage", "StrictDecoding", "decode_exactly"]

UNREADABLE = (struct.error, IndexError, ValueError, TypeError, OverflowError)
"""What kafka-python's generated decoders raise on bytes of another form."""


def why_unreadable(error: Exception) -> str:
    """Why bytes could not be decoded, in words that are not those of the decoder."""
    return "they end too early" if isinstance(error, struct.error | IndexError) else str(error)


def decode_exactly(message_class: Any, body: bytes | memoryview, version: int) -> Any:
    """The message of *message_class* that *body* (without header) holds.

    Raises MalformedMessage: the body is too short, too long, or has impossible values.
    """
    flexible = message_class.flexible_version_q(version)
    decode = message_class._struct.compiled_decode_from(
        version, compact=flexible, tagged=flexible, data_class=message_class[None]
    )
    try:
        message, end = decode(memoryview(body), 0)
    except (*UNREADABLE, AssertionError) as error:
        raise _malformed(message_class, version, why_unreadable(error)) from error
    if end != len(body):
        raise _malformed(message_class, version, f"it takes {end} bytes of {len(body)}")
    # kafka-python does not set this when it decodes, but reads it when it encodes.
    message._header = None
    return message


class StrictDecoding:
    """Mixed into a message class before ApiMessage, makes its ``decode`` exact."""

    __slots__ = ()

    @classmethod
    def decode(cls: Any, data: bytes | memoryview, version: int, header: bool = False) -> Any:
        """Decode a whole message, after its header where *header* is set.

        Raises MalformedMessage: the bytes are not one message of this schema.
        """
        if not header:
            return decode_exactly(cls, data, version)
        parsed, size = _split_header(cls, data, version)
        message = decode_exactly(cls, memoryview(data)[size:], version)
        message._header = parsed
        return message


def _split_header(message_class: Any, data: bytes | memoryview, version: int) -> tuple[Any, int]:
    stream = io.BytesIO(bytes(data))
    try:
        return message_class.parse_header(stream, version=version), stream.tell()
    except UNREADABLE as error:
        raise _malformed(message_class, version, f"its header: {why_unreadable(error)}") from error


def _malformed(message_class: Any, version: int, reason: str) -> MalformedMessage:
    return MalformedMessage(
        f"these bytes are no {message_class.name} v{version} ({reason}): "
        "check which Kafka the other side runs"
    )
