"""A file of which only what is read is fetched: how much is asked for at once."""

from __future__ import annotations

import pytest

from breakglass.services.topic_backup.store.local_blobs import range_file

CONTENT = bytes(range(256)) * 400
BUFFER_BYTES = 16_384

Asked = list[tuple[int, int]]


@pytest.fixture
def asked() -> Asked:
    """The ranges that were fetched."""
    return []


def test_all_that_is_left_comes_by_one_fetch(asked: Asked) -> None:
    file = range_file(lambda start, end: _fetched(asked, start, end), len(CONTENT), BUFFER_BYTES)
    assert file.read() == CONTENT
    assert asked == [(0, len(CONTENT))]
    assert file.read() == b""
    file.seek(100_000)
    assert file.read() == CONTENT[100_000:]
    assert asked[1:] == [(100_000, len(CONTENT))]


def test_small_reads_are_gathered(asked: Asked) -> None:
    file = range_file(lambda start, end: _fetched(asked, start, end), len(CONTENT), BUFFER_BYTES)
    assert b"".join(file.read(100) for _ in range(100)) == CONTENT[:10_000]
    assert asked == [(0, BUFFER_BYTES)]


def _fetched(asked: Asked, start: int, end: int) -> bytes:
    asked.append((start, end))
    return CONTENT[start:end]
