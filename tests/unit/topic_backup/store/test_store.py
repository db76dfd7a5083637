"""Stores: keys, compressed and encrypted objects, folders in which nothing is changed."""

import asyncio
import base64
import json
import os
import pickle
import random
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from breakglass.services import patience
from breakglass.services.errors import AlreadyRunning, DamagedBackup, StorageError, UsageError
from breakglass.services.topic_backup.manifest import TopicIdentity, next_manifest, read_manifest
from breakglass.services.topic_backup.store import fsspec_blobs
from breakglass.services.topic_backup.store.blobs import (
    KEY_BYTES,
    Blobs,
    Key,
    LocalBlobs,
    read_key,
)
from breakglass.services.topic_backup.store.form import (
    CHUNK_BYTES,
    FRAME_BYTES,
    HEADER,
    TAG_BYTES,
    Compressed,
    Sealed,
)
from breakglass.services.topic_backup.store.fsspec_blobs import FsspecBlobs, _Upload
from breakglass.services.topic_backup.store.store import (
    RunsFolder,
    Store,
    last_manifest,
    stale,
    version_name,
)
from breakglass.services.topic_backup.summary import PartitionSummary, SegmentSummary
from tests.kit.deadlines import MOMENT
from tests.kit.raw_http import OK, answer_of, raw_http
from tests.kit.s3_server import client_files
from tests.unit.topic_backup.store.stores import (
    COMPRESSED,
    ENCRYPTED,
    KEY,
    OTHER_KEY,
    PLAIN,
    in_memory,
    on_disk,
    runs_folder,
)

CONTENT = bytes(range(KEY_BYTES))


@pytest.mark.parametrize(
    "written",
    [
        CONTENT,
        CONTENT.hex().encode() + b"\n",
        CONTENT.hex().upper().encode(),
        base64.b64encode(CONTENT),
    ],
)
def test_a_key_is_read_as_it_is_or_in_hex_or_in_base64(written: bytes, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(written)
    assert read_key(str(tmp_path / "key")).id == Key(CONTENT).id
    assert read_key("env:BACKUP_KEY", {"BACKUP_KEY": CONTENT.hex()}).id == Key(CONTENT).id


def test_s26_a_key_of_the_environment_is_there_for_no_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OUR_KEY", "07" * 32)
    first = read_key("env:OUR_KEY")
    assert "OUR_KEY" not in os.environ
    assert read_key("env:OUR_KEY").id == first.id


@pytest.mark.parametrize("written", [b"", b"password", CONTENT[1:], b"zz" * 32])
def test_anything_else_is_refused_and_not_repeated(written: bytes, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(written)
    with pytest.raises(UsageError) as refused:
        read_key(str(tmp_path / "key"))
    assert not written or written.decode(errors="replace") not in str(refused.value)
    for absent in ("env:ABSENT_KEY", str(tmp_path / "absent")):
        with pytest.raises(UsageError):
            read_key(absent, {})


def test_a_key_is_not_shown_and_goes_to_tasks_but_to_no_json() -> None:
    key = Key(CONTENT)
    assert f"{key} {key!r}" == "Key(***) Key(***)"
    with pytest.raises(TypeError):
        json.dumps({"key": key})
    assert pickle.loads(pickle.dumps(key)).id == key.id, "a task has it"  # noqa: S301


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
    with pytest.raises(DamagedBackup):
        read(compressed(tmp_path))


def chunks(file: Path) -> list[bytes]:
    held = file.read_bytes()
    return [held[at : at + SEALED_CHUNK] for at in range(HEADER.size, len(held), SEALED_CHUNK)]


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
    file.write_bytes(file.read_bytes()[: HEADER.size] + b"".join(TAMPERED[what](chunks(file))))
    with pytest.raises(DamagedBackup):
        read(sealed(tmp_path))


@pytest.mark.parametrize(
    ("topic", "name"),
    [("orders", "run-1/other"), ("payments", NAME)],
    ids=["another name", "another topic"],
)
def test_a_sealed_file_elsewhere_does_not_open(tmp_path: Path, topic: str, name: str) -> None:
    put(sealed(tmp_path), b"one")
    (tmp_path / f"{NAME}.aes").replace(tmp_path / f"{name}.aes")
    with pytest.raises(DamagedBackup):
        read(Sealed(LocalBlobs(tmp_path), KEY, topic), name)


def test_no_plain_byte_and_no_two_equal_files_lie_on_disk(tmp_path: Path) -> None:
    for name in ("one", "two"):
        put(sealed(tmp_path), b"a secret value" * 10, name)
    one, two = (tmp_path / "one.aes").read_bytes(), (tmp_path / "two.aes").read_bytes()
    with pytest.raises(UsageError):
        read(Sealed(LocalBlobs(tmp_path), OTHER_KEY, "orders"), "one")
    assert b"secret" not in one
    assert one[16:] != two[16:]


@pytest.mark.parametrize("make", [LocalBlobs, compressed, sealed])
def test_an_object_is_created_once(make: Callable[[Path], Blobs], tmp_path: Path) -> None:
    assert make(tmp_path).create("manifest", b"first")
    assert not make(tmp_path).create("manifest", b"second")
    assert read(make(tmp_path), "manifest") == b"first"


Asked = list[tuple[int, int]]


@pytest.fixture
def asked() -> Asked:
    """The ranges that were fetched."""
    return []


ORDERS = TopicIdentity("orders")


@pytest.fixture
def store() -> Iterator[Store]:
    """An object store."""
    with in_memory() as store:
        yield store


@pytest.fixture
def folder(store: Store) -> RunsFolder:
    """The folder of orders in it."""
    return runs_folder(store, PLAIN)


def test_a_local_folder_that_was_copied_counts_until_the_first_commit(folder: RunsFolder) -> None:
    assert folder.manifest() is None
    folder.replace("breakglass_manifest.json", [b"{}"])
    assert folder.manifest() == "breakglass_manifest.json"
    folder.commit(6, b"{}")
    assert folder.manifest() == version_name(6)
    names = ["breakglass_manifest_0000000009.json", "breakglass_manifest_10000000000.json"]
    assert last_manifest([*names, "breakglass_manifest.json", "other"]) == names[1]


def test_of_many_commits_of_one_number_one_succeeds(folder: RunsFolder) -> None:
    succeeded: list[int] = []
    refused: list[int] = []
    begin = threading.Barrier(8)

    def commit(writer: int) -> None:
        begin.wait()
        try:
            folder.commit(1, b"%d" % writer)
            succeeded.append(writer)
        except AlreadyRunning:
            refused.append(writer)

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(succeeded), len(refused)) == (1, 7)
    with folder.open(version_name(1)) as file:
        assert file.read() == b"%d" % succeeded[0]


def test_a_store_that_overwrites_what_it_must_not_is_refused(
    folder: RunsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(folder.blobs), "create", lambda *_: True)
    with pytest.raises(StorageError), folder.lock():
        pass


def test_what_no_commit_names_and_none_will_can_go() -> None:
    held = SegmentSummary("run-0000000002-ab-7/segment_x", 0, 1, "")
    manifest = next_manifest(None, ORDERS, {0: PartitionSummary(0, 1, (held,))})
    kept = [f"{held.prefix}_records", f"{held.prefix}_index"]
    of_a_killed_run = [
        "run-0000000001-ff-0/segment_y_records",
        "run-0000000001-ff-0/.breakglass-00ff.tmp",
    ]
    may_be_committed = ["run-0000000002-cd-0/segment_y_index", "consumer_offsets_partition_000"]
    names = [*kept, *of_a_killed_run, *may_be_committed]
    assert stale(names, [manifest]) == of_a_killed_run


def test_one_folder_has_one_form(store: Store) -> None:
    runs_folder(store, COMPRESSED).commit(1, b"{}")
    with pytest.raises(UsageError):
        store.folder("orders", PLAIN)


def test_a_manifest_put_back_from_an_earlier_commit_does_not_open(tmp_path: Path) -> None:
    folder = runs_folder(on_disk(tmp_path), ENCRYPTED)
    folder.commit(1, b"{}")
    folder.commit(2, b"{}")
    names = [tmp_path / "orders" / f"{version_name(number)}.aes" for number in (1, 2)]
    names[1].write_bytes(names[0].read_bytes())
    with pytest.raises(StorageError):
        read_manifest(folder)
    with pytest.raises(UsageError):
        on_disk(tmp_path, None).folder("orders")


# --- a store that accepts connections and never answers

ASKED: dict[str, Callable[[FsspecBlobs], object]] = {
    "find": lambda blobs: blobs.names(),
    "ls": lambda blobs: blobs.folders(),
    "info": lambda blobs: blobs.size("a"),
    "cat_file": lambda blobs: blobs.read("a", 0, 1),
    "pipe_file": lambda blobs: blobs.create("a", b""),
    "open": lambda blobs: blobs.begin("a"),
    "rm_file": lambda blobs: blobs.remove(["a"]),
}


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """What a call of a store's client does that never gets its answer."""
    answer = threading.Event()
    for name in ("STORE", "STORE_BULK"):
        monkeypatch.setattr(patience, name, MOMENT)

    def wait(*_: object, **__: object) -> None:
        answer.wait()

    yield wait
    answer.set()


@pytest.mark.parametrize("call", ASKED)
def test_h18_no_call_of_a_store_that_is_silent_waits_without_end(
    call: str, silent: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    with monkeypatch.context() as patched:
        patched.setattr(MemoryFileSystem, call, silent)
        with pytest.raises(StorageError, match=r"memory://silent.*: no answer within"):
            ASKED[call](FsspecBlobs("memory://silent"))


@pytest.mark.parametrize("call", ["write", "close", "discard"])
def test_h18_an_upload_to_a_store_that_becomes_silent_ends(
    call: str, silent: Callable[..., None]
) -> None:
    from fsspec.spec import AbstractBufferedFile

    file = type("File", (AbstractBufferedFile,), {call: silent, "__init__": lambda _: None})()
    upload = _Upload(FsspecBlobs("memory://silent"), "a", file)
    acts: dict[str, Callable[[], None]] = {
        "write": lambda: upload.write(memoryview(b"a")),
        "close": upload.close,
        "discard": upload.abandon,
    }
    with pytest.raises(StorageError, match="memory://silent/a: no answer within"):
        acts[call]()
    # The collector would close it.
    file.closed = True


def test_what_a_client_raises_itself_in_time_is_its_own_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    def late(*_: object, **__: object) -> None:
        raise TimeoutError("the client's own limit")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryFileSystem, "ls", late)
        with pytest.raises(StorageError, match="the client's own limit"):
            FsspecBlobs("memory://silent").folders()


def listing(contents: str) -> list[bytes]:
    text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
    return answer_of(text.encode(), b"application/xml")


def listed(key: str) -> str:
    return f"<Contents><Key>{key}</Key><Size>5</Size></Contents>"


ENTITIES = "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in pairwise("abcdefghij"))
LONG = "lol" * 1000
FLOOD = [b" " * (1 << 20)] * 400


def read_ten(blobs: FsspecBlobs) -> object:
    return blobs.read("f", 0, 10)


def all_names(blobs: FsspecBlobs) -> object:
    return blobs.names()


S3_ANSWERS: dict[str, tuple[list[bytes], Callable[[FsspecBlobs], object]]] = {
    "a flood for ten bytes": ([OK + b"Content-Length: 419430400\r\n\r\n", *FLOOD], read_ten),
    "an object without a length": ([OK + b"Connection: close\r\n\r\n", *FLOOD], read_ten),
    "more than was asked for": ([OK + b"Content-Length: 11\r\n\r\n" + b"x" * 11], read_ten),
    "less than was announced": ([OK + b"Content-Length: 9\r\n\r\nx"], read_ten),
    "a flood for a listing": ([OK + b"Content-Length: 419430400\r\n\r\n", *FLOOD], all_names),
    "a listing of other places": (listing(listed("elsewhere/a")), all_names),
    "a listing without sizes": (listing("<Contents><Key>x/a</Key></Contents>"), all_names),
    "an XML bomb": (
        answer_of(
            f'<!DOCTYPE l [<!ENTITY a "{LONG}">{ENTITIES}]><ListBucketResult>&j;'.encode()
            + b"</ListBucketResult>",
            b"application/xml",
        ),
        all_names,
    ),
    "elements without end": (answer_of(b"<l>" * 300_000, b"application/xml"), all_names),
    "a redirect": (
        [b"HTTP/1.1 307 No\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"],
        read_ten,
    ),
    "an escape": (
        [
            b"HTTP/1.1 403 No\r\nContent-Type: application/xml\r\nConnection: close\r\n\r\n"
            b"<Error><Code>A</Code><Message>\xc2\x9bX \xe2\x80\xae</Message></Error>"
        ],
        read_ten,
    ),
}


@pytest.mark.parametrize(("pieces", "ask"), S3_ANSWERS.values(), ids=S3_ANSWERS)
def test_s47_whatever_a_store_answers_is_a_sentence_and_takes_no_memory(
    pieces: list[bytes],
    ask: Callable[[FsspecBlobs], object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from fsspec import get_filesystem_class

    s3 = get_filesystem_class("s3")
    monkeypatch.setattr(fsspec_blobs, "S3_RETRIES", 1)
    for variable, value in client_files(tmp_path).items():
        monkeypatch.setenv(variable, value)
    once = {"mode": "standard", "max_attempts": 1}
    monkeypatch.setitem(fsspec_blobs.S3_OPTIONS["config_kwargs"], "retries", once)
    with raw_http(pieces) as (address, asked):
        settings = f"region = us-east-1\nendpoint_url = http://{address}\n"
        (tmp_path / "config").write_text(f"[default]\n{settings}")
        keys = "aws_access_key_id = nobody\naws_secret_access_key = hush\n"
        (tmp_path / "credentials").write_text(f"[default]\n{keys}")
        s3.clear_instance_cache()
        tracemalloc.start()
        try:
            with pytest.raises(StorageError) as refused:
                ask(FsspecBlobs("s3://bucket/x"))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            s3.clear_instance_cache()
    assert asked
    assert not [request for request in asked if b"/elsewhere " in request]
    assert str(refused.value).isprintable()
    assert peak < 200 << 20


def test_s47_a_listing_that_never_ends_is_ended() -> None:
    session = fsspec_blobs.bounded_session()()

    async def page() -> None:
        await session.send(SimpleNamespace(url="http://b/?continuation-token=x"))

    session.pages = fsspec_blobs.MOST_PAGES
    with pytest.raises(OSError, match="pages"):
        asyncio.run(page())
