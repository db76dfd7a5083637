"""Names and documents: what is written is what is read, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    DeletedDocument,
    Document,
    FailureDocument,
    OngoingDocument,
    StartedDocument,
    StoredFile,
    TransactionFloors,
    VerifiedDocument,
    decode,
    encode,
)
from breakglass.services.checkpoint.store.layout import CheckpointFile, Name, parsed
from breakglass.services.errors import MalformedInput, UnsupportedSchema
from tests.unit.checkpoint.store.stores import manifest, take

NUMBERS = st.integers(0, 10**19 - 1)
NAMES = st.one_of(
    st.builds(
        Name,
        NUMBERS,
        st.none(),
        st.none(),
        st.sampled_from(
            [
                CheckpointFile.TAKE,
                CheckpointFile.STARTED,
                CheckpointFile.FAILURE,
                CheckpointFile.DELETED,
            ]
        ),
    ),
    st.builds(Name, NUMBERS, st.none(), st.none(), st.just(CheckpointFile.VERIFIED), NUMBERS),
    st.builds(Name, NUMBERS, NUMBERS, st.none(), st.just(CheckpointFile.FAILURE)),
    st.builds(
        Name,
        NUMBERS,
        NUMBERS,
        NUMBERS,
        st.sampled_from([CheckpointFile.ONGOING, CheckpointFile.MANIFEST, CheckpointFile.FAILURE]),
    ),
)
DOCUMENTS: tuple[Document, ...] = (
    take(5),
    StartedDocument(7, {1: 100, 2: 0}, {1: 3}),
    StartedDocument(
        7, {1: 100}, transactions=TransactionFloors({"t": {0: 5}}, {"g": {1: 3}}, {1: 9})
    ),
    CutDocument(7, {1: 100}, in_transit={1: (105,)}, epochs={1: 3}, in_transit_epochs={1: 4}),
    FailureDocument(7, "no space\x1b[2J \U0001f525", 100),
    VerifiedDocument(7, {1: 0, 2: 4}, 3, 70, {2: "a file is missing"}),
    DeletedDocument(7),
    OngoingDocument(7),
    OngoingDocument(7, 100, "1.0"),
    manifest(StoredFile("segments/0/records", 7, "a" * 64)),
)


@given(NAMES)
def test_a_name_is_read_as_it_was_written(name: Name) -> None:
    assert parsed(str(name)) == name
    assert (name.copy is None) == (name.node is None)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "take.json",
        "1/take",
        "1/take.json/",
        "1/TAKE.json",
        "1/take-5.json",
        "1/verified.json",
        "1/verified-.json",
        "1/verified-05.json",
        "1/2/verified-5.json",
        "1/manifest.json",
        "1/2/take.json",
        "1/2/3/deleted.json",
        "1/2/3/4/failure.json",
        "01/take.json",
        "-1/take.json",
        "1/../take.json",
        "99999999999999999999/take.json",
        "1/take.json\n",
        "\u0661/take.json",
    ],
)
def test_another_name_is_none(name: str) -> None:
    assert parsed(name) is None


@settings(max_examples=50)
@given(st.text())
def test_no_name_is_too_strange(name: str) -> None:
    found = parsed(name)
    assert found is None or str(found) == name


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: type(one).__name__)
def test_a_document_is_read_as_it_was_written(document: Document) -> None:
    assert decode(type(document), encode(document), "here") == document


@settings(max_examples=50)
@given(st.binary() | st.text().map(str.encode))
def test_no_bytes_are_too_strange(content: bytes) -> None:
    with pytest.raises((MalformedInput, UnsupportedSchema)):
        decode(FailureDocument, content, "here")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: type(one).__name__)
def test_a_document_that_was_cut_off_is_none(document: Document) -> None:
    content = encode(document).rstrip()
    for end in range(0, len(content), 7):
        with pytest.raises(MalformedInput):
            decode(type(document), content[:end], "here")
