"""Compressed and encrypted objects: the same bytes come out, and no change goes unnoticed."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from breakglass.services.errors import DamagedBackup, UsageError
from breakglass.services.topic_backup.store.blobs import Blobs
from breakglass.services.topic_backup.store.compressed import FRAME_BYTES, Compressed
from breakglass.services.topic_backup.store.local_blobs import LocalBlobs
from breakglass.services.topic_backup.store.sealed import CHUNK_BYTES, HEADER, TAG_BYTES, Sealed
from tests.unit.topic_backup.store.stores import KEY, OTHER_KEY

SEALED_CHUNK = CHUNK_BYTES + TAG_BYTES
NAME = "run-1/records"


def compressed(path: Path) -> Blobs:
    return Compressed(LocalBlobs(path))


def sealed(path: Path) -> Blobs:
    return Sealed(LocalBlobs(path), KEY, "orders")


def both(path: Path) -> Blobs:
    return Compressed(sealed(path))


def put(blobs: Blobs, content: bytes, name: str = NAME) -> None:
    """Write *content* in pieces as odd as those of tasks."""
    file = blobs.begin(name)
    for at in range(0, len(content), 700_001):
        file.write(memoryview(content)[at : at + 700_001])
    file.close()


def read(blobs: Blobs, name: str = NAME) -> bytes:
    with blobs.open(name) as file:
        return file.read()


def content(size: int) -> bytes:
    return random.Random(size).randbytes(size // 2) + b"x" * (size - size // 2)


SIZES = (0, 1, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, 3 * FRAME_BYTES + 12345)


@pytest.mark.parametrize("make", [compressed, sealed, both])
@pytest.mark.parametrize("size", SIZES)
def test_what_was_written_is_read(make: Callable[[Path], Blobs], size: int, tmp_path: Path) -> None:
    blobs = make(tmp_path)
    put(blobs, content(size))
    assert read(blobs) == content(size)
    assert blobs.size(NAME) == size
    assert blobs.names() == [NAME]


@pytest.mark.parametrize("make", [compressed, sealed, both])
def test_any_range_is_read(make: Callable[[Path], Blobs], tmp_path: Path) -> None:
    whole = content(3 * FRAME_BYTES + 12345)
    put(make(tmp_path), whole)
    chance = random.Random(7)
    with make(tmp_path).open(NAME) as file:
        for _ in range(50):
            start = chance.randrange(len(whole))
            size = chance.choice((1, 24, 5000, FRAME_BYTES + 3))
            assert file.seek(start) == start
            assert file.read(size) == whole[start : start + size]


def test_files_are_named_for_their_form(tmp_path: Path) -> None:
    put(both(tmp_path), b"records")
    assert LocalBlobs(tmp_path).names() == [f"{NAME}.zst.aes"]


def test_zstd_itself_reads_a_compressed_file(tmp_path: Path) -> None:
    zstd = shutil.which("zstd")
    if zstd is None:
        pytest.skip("no zstd on this machine")
    put(compressed(tmp_path), content(FRAME_BYTES + 5))
    plain = subprocess.run([zstd, "-dc", tmp_path / f"{NAME}.zst"], capture_output=True, check=True)
    assert plain.stdout == content(FRAME_BYTES + 5)


@pytest.mark.parametrize("cut", [1, 8, 30])
def test_a_compressed_file_that_is_cut_is_damaged(cut: int, tmp_path: Path) -> None:
    put(compressed(tmp_path), content(3 * FRAME_BYTES))
    file = tmp_path / f"{NAME}.zst"
    file.write_bytes(file.read_bytes()[:-cut])
    with pytest.raises(DamagedBackup, match="table of frames"):
        read(compressed(tmp_path))


def test_a_frame_that_holds_more_than_is_noted_is_no_bomb(tmp_path: Path) -> None:
    put(compressed(tmp_path), bytes(FRAME_BYTES))
    file = tmp_path / f"{NAME}.zst"
    held = bytearray(file.read_bytes())
    held[-13:-9] = (1000).to_bytes(4, "little")
    file.write_bytes(held)
    with pytest.raises(DamagedBackup, match="no Zstandard frame"):
        read(compressed(tmp_path))


def chunks(file: Path) -> list[bytes]:
    held = file.read_bytes()
    return [held[at : at + SEALED_CHUNK] for at in range(HEADER.size, len(held), SEALED_CHUNK)]


def rewrite(file: Path, some: list[bytes]) -> None:
    file.write_bytes(file.read_bytes()[: HEADER.size] + b"".join(some))


TAMPERED: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "the last chunk is missing": lambda some: some[:-1],
    "the first chunk is missing": lambda some: some[1:],
    "all chunks are missing": lambda _: [],
    "two chunks changed places": lambda some: [some[1], some[0], *some[2:]],
    "a chunk is there twice": lambda some: [some[0], *some],
    "the last chunk is cut": lambda some: [*some[:-1], some[-1][:-1]],
    "something is appended": lambda some: [*some, b"more"],
    "a bit is turned": lambda some: [
        some[0][:9] + bytes([some[0][9] ^ 1]) + some[0][10:],
        *some[1:],
    ],
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_sealed_file_that_was_changed_does_not_open(what: str, tmp_path: Path) -> None:
    put(sealed(tmp_path), content(3 * CHUNK_BYTES))
    file = tmp_path / f"{NAME}.aes"
    rewrite(file, TAMPERED[what](chunks(file)))
    with pytest.raises(DamagedBackup, match=r"changed, cut or exchanged|is cut"):
        read(sealed(tmp_path))


def test_a_sealed_file_under_another_name_does_not_open(tmp_path: Path) -> None:
    put(sealed(tmp_path), b"one")
    put(sealed(tmp_path), b"two", "run-1/other")
    (tmp_path / f"{NAME}.aes").replace(tmp_path / "run-1/other.aes")
    with pytest.raises(DamagedBackup, match="changed, cut or exchanged"):
        read(sealed(tmp_path), "run-1/other")


def test_a_sealed_file_of_another_topic_does_not_open(tmp_path: Path) -> None:
    put(sealed(tmp_path), b"one")
    with pytest.raises(DamagedBackup, match="changed, cut or exchanged"):
        read(Sealed(LocalBlobs(tmp_path), KEY, "payments"))


def test_another_key_is_told_from_damage(tmp_path: Path) -> None:
    put(sealed(tmp_path), b"one")
    with pytest.raises(UsageError, match="encrypted with another key"):
        read(Sealed(LocalBlobs(tmp_path), OTHER_KEY, "orders"))


def test_no_plain_byte_and_no_two_equal_files_lie_on_disk(tmp_path: Path) -> None:
    for name in ("one", "two"):
        put(sealed(tmp_path), b"a secret value" * 10, name)
    one, two = (tmp_path / "one.aes").read_bytes(), (tmp_path / "two.aes").read_bytes()
    assert b"secret" not in one
    assert one[16:] != two[16:]


def test_what_is_abandoned_is_not_there(tmp_path: Path) -> None:
    for blobs in (compressed(tmp_path), sealed(tmp_path)):
        file = blobs.begin(NAME)
        file.write(memoryview(bytes(3 * FRAME_BYTES)))
        file.abandon()
        assert blobs.names() == []
        assert blobs.size(NAME) is None


@pytest.mark.parametrize("make", [LocalBlobs, compressed, sealed])
def test_an_object_is_created_once(make: Callable[[Path], Blobs], tmp_path: Path) -> None:
    assert make(tmp_path).create("manifest", b"first")
    assert not make(tmp_path).create("manifest", b"second")
    assert read(make(tmp_path), "manifest") == b"first"
