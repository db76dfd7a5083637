"""Record batches of a fetch, one after the other."""

from collections.abc import Iterator

from breakglass.services.record_batches import (
    MAX_BATCH_BYTES,
    RecordBatch,
    decode_batch,
    read_headers,
)


def decode_batches(
    data: bytes, where: str, *, max_batch_bytes: int = MAX_BATCH_BYTES
) -> Iterator[RecordBatch]:
    """The whole batches of *data*, each checked and decompressed when it is its turn.

    Raises:
        MalformedMessage: as `read_headers`; a CRC that differs; bytes that are no records.
    """
    for header in read_headers(data, where).headers:
        yield decode_batch(data, header, where, max_batch_bytes=max_batch_bytes)
