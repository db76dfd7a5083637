"""Documents of a store that were edited after they were written."""

import json
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    Document,
    GroupCut,
    GroupPolicy,
    VerifiedDocument,
)
from breakglass.services.checkpoint.store.files import Files, Name
from breakglass.services.errors import MalformedInput, UnsupportedSchema
from tests.kit.extent import examples
from tests.unit.checkpoint.store.stores import SUBJECTS, copied, reserved, stored, ticking

OFFSETS = {1: 40, 2: 70, 3: 90}
Edit = Callable[[random.Random, bytes], bytes]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A store with checkpoints 1 and 2, each completed, with a group's offsets."""
    store = BackupStore(str(tmp_path), ticking())
    for id in (1, 2):
        reserved(store, id)
        store.start(id, dict.fromkeys(OFFSETS, 100))
        groups = {"billing": GroupCut(GroupPolicy.EXACTLY_ONCE, OFFSETS)}
        cut = CutDocument(1, dict.fromkeys(OFFSETS, 100), groups, rolled_back={1: id, 2: 0, 3: 2})
        store.decide(id, cut)
        for subject in SUBJECTS:
            copied(store, CopyId(id, subject.number, 0))
        store.note_verified(id, VerifiedDocument(5, dict.fromkeys(OFFSETS, 0), 3, 63))
    return tmp_path


def documents(place: Path) -> list[Path]:
    """Every document of checkpoint 1."""
    found = sorted((place / "checkpoints" / "1").rglob("*.json"))
    assert len(found) == 4 + 2 * len(SUBJECTS)
    return found


def one_bit(draw: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value in a document, and of each name."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from leaves(inner, (*path, key))


def one_value(draw: random.Random, content: bytes) -> bytes:
    """Another value, another name, or nothing, somewhere in a document."""
    whole = json.loads(content)
    *path, key = draw.choice(list(leaves(whole)))
    inner = whole
    for step in path:
        inner = inner[step]
    held = inner[key]
    how = draw.choice(["value", "gone", "name"])
    if how == "gone":
        del inner[key]
    elif how == "name" and isinstance(inner, dict):
        inner["1" if key != "1" else "2"] = inner.pop(key)
    else:
        inner[key] = held + 1 if isinstance(held, int) else f"{held}x" if held else 7
    return json.dumps(whole, indent=1).encode() + b"\n"


@pytest.mark.parametrize("edit", [one_bit, one_value])
def test_no_edit_of_a_document_is_believed(place: Path, edit: Edit) -> None:
    store, draw = BackupStore(str(place)), random.Random(36)
    assert stored(store).status is Status.COMPLETED
    assert stored(store).proved
    for number in range(examples(500)):
        path = draw.choice(documents(place))
        content = path.read_bytes()
        path.write_bytes(edit(draw, content))
        with pytest.raises((MalformedInput, UnsupportedSchema)):
            pytest.fail(f"edit {number} of {path.name}: {store.read(1)}")
        path.write_bytes(content)


def of_another(path: Path) -> None:
    path.write_bytes((path.parents[1] / "2" / path.name).read_bytes())


def without_sum(path: Path) -> None:
    document = json.loads(path.read_bytes())
    del document["sum"]
    path.write_text(json.dumps({**document, "schema": 1}))


@pytest.mark.parametrize("change", [of_another, without_sum, Path.unlink])
@pytest.mark.parametrize("name", ["take.json", "started.json", "cut.json"])
def test_a_document_that_the_copies_do_not_name_is_not_believed(
    place: Path, name: str, change: Callable[[Path], None]
) -> None:
    change(place / "checkpoints" / "1" / name)
    with pytest.raises(MalformedInput, match=name):
        BackupStore(str(place)).read(1)


def test_what_another_process_writes_or_deletes_meanwhile_is_no_damage(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the list of a checkpoint's documents and their reading."""
    store, folder = BackupStore(str(place)), place / "checkpoints" / "1"
    listed, read = Files.names, Files.read_all
    with monkeypatch.context() as patched:
        early = [one for one in listed(store.copies._files, 1) if str(one) != "1/cut.json"]
        patched.setattr(Files, "names", lambda *_: early)
        assert stored(store).status is Status.COMPLETED

    def deleted(files: Files, names: Iterable[Name]) -> dict[Name, Document]:
        (folder / "deleted.json").write_text('{"schema": 1, "at_ms": 5}')
        (folder / "cut.json").unlink()
        return read(files, names)

    monkeypatch.setattr(Files, "read_all", deleted)
    assert store.read(1) is None


def test_documents_of_an_older_release_are_read_and_are_not_proved(place: Path) -> None:
    for path in documents(place):
        document = json.loads(path.read_bytes())
        del document["sum"]
        document.pop("made_by", None)
        path.write_text(json.dumps({**document, "schema": 1}))
    found = stored(BackupStore(str(place)))
    assert found.cut is not None
    assert found.cut.groups["billing"].offsets == OFFSETS
    assert (found.status, found.proved) == (Status.COMPLETED, False)
