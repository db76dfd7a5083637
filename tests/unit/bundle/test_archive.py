"""Bundles and their values, written and read with distrust."""

import json
import os
import stat
import tarfile
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from breakglass.services import errors
from breakglass.services.bundle import contents
from breakglass.services.bundle.archive import (
    BLOCK,
    DEEPEST,
    MANIFEST,
    MOST_BYTES,
    MOST_LINE_BYTES,
    Unfit,
    decode,
    encode,
    header_of,
)
from breakglass.services.bundle.capture import BundleMaker
from breakglass.services.bundle.contents import BundleContents, open_bundle
from breakglass.services.bundle.records import (
    BROKERS,
    CLUSTER,
    EVIDENCE,
    GROUPS,
    PARTITIONS,
    TOPICS,
    BundledOffset,
)
from breakglass.services.connection.secret import Secret
from breakglass.services.model import Denied, Forfeited, LogDir, PartitionEvidence, Silent, Unknown
from breakglass.services.snapshot import Quorum, Voter
from tests.fuzz.damage import Damage, damage
from tests.kit.bundles import bundle_of, entries_of, maker_of, packed, rebuilt, tar_entry, unpacked
from tests.kit.extent import examples
from tests.kit.incidents import LEDGER, QUORUM, every_verdict


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle_of(every_verdict(), tmp_path_factory.mktemp("bundle") / "b.tar.gz")


def refused(path: Path) -> None:
    with pytest.raises(errors.MalformedInput):
        open_bundle(path)


def test_tar_reads_it_and_the_manifest_has_the_sha_of_each_entry(whole: Path) -> None:
    with tarfile.open(whole) as tar:
        found = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    assert found == entries_of(whole)
    manifest = json.loads(found.pop(MANIFEST))
    told = {entry["name"]: entry["sha256"] for entry in manifest["entries"]}
    assert told == {name: sha256(data).hexdigest() for name, data in found.items()}


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_it_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        path = bundle_of(every_verdict(), tmp_path / "b.tar.gz")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        bundle_of(every_verdict(), path)
    assert path.is_symlink()
    assert not path.exists()


def test_a_failing_bundle_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(errors.StorageError, match="No space left"):
        bundle_of(every_verdict(), tmp_path / "b.tar.gz")
    assert list(tmp_path.iterdir()) == []


def test_another_version_and_what_follows_the_end_are_refused(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(errors.UnsupportedSchema):
        open_bundle(rebuilt(entries_of(whole), tmp_path / "other.tar.gz", version=2))
    path = tmp_path / "b.tar.gz"
    path.write_bytes(whole.read_bytes() + b"more")
    refused(path)


Spoil = Callable[[dict[str, bytes], list[Any]], dict[str, Any]]


def lines_changed(name: str, change: Callable[[list[Any]], object]) -> Spoil:
    def spoil(entries: dict[str, bytes], _: list[Any]) -> dict[str, Any]:
        lines = [json.loads(line) for line in entries[name].splitlines()]
        change(lines)
        entries[name] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        return {}

    return spoil


def other_bytes(entries: dict[str, bytes], _: list[Any]) -> dict[str, Any]:
    entries[GROUPS] = entries[GROUPS].replace(b"billing", b"killing")
    return {"honest": False}


SPOILT: dict[str, Spoil] = {
    "a changed byte": other_bytes,
    "an entry that stands twice": lambda _, told: {"honest": False, "entries": [*told, told[0]]},
    "an entry that is not named": lambda _, told: {"honest": False, "entries": told[:-1]},
    "a time before 1970": lambda *_: {"captured_at_ms": -1},
    "a time that no clock shows": lambda *_: {"captured_at_ms": 2**62},
    "evidence of no partition": lines_changed(PARTITIONS, lambda lines: lines.pop(0)),
    "a topic twice": lines_changed(TOPICS, lambda lines: lines.append(lines[0])),
    "a broker twice": lines_changed(BROKERS, lambda lines: lines.append(lines[0])),
    "a cluster twice": lines_changed(CLUSTER, lambda lines: lines.append(lines[0])),
    "a leader that is no replica": lines_changed(
        EVIDENCE, lambda lines: lines[0]["replicas"][0].update(broker=77)
    ),
}


@pytest.mark.parametrize("what", SPOILT)
def test_a_bundle_that_contradicts_itself_is_refused(
    whole: Path, tmp_path: Path, what: str
) -> None:
    entries = entries_of(whole)
    options = SPOILT[what](entries, json.loads(entries[MANIFEST])["entries"])
    refused(rebuilt(entries, tmp_path / "b.tar.gz", **options))


@pytest.mark.parametrize(
    "name",
    ["../escape.json", "/etc/cron.d/x.json", "journal/../../x.jsonl", "a/b.json", "x.sh", MANIFEST],
)
def test_a_name_that_leads_elsewhere_is_refused(whole: Path, tmp_path: Path, name: str) -> None:
    path, entries = tmp_path / "b.tar.gz", entries_of(whole)
    manifest = json.loads(entries.pop(MANIFEST))
    entry = {"name": name, "size": 3, "sha256": sha256(b"{}\n").hexdigest(), "read_at_ms": 0}
    text = json.dumps({**manifest, "entries": [*manifest["entries"], entry]}).encode()
    held = [tar_entry(one, data) for one, data in entries.items()]
    blocks = [tar_entry(MANIFEST, text), *held, tar_entry(name, b"{}\n"), bytes(2 * BLOCK)]
    path.write_bytes(packed(blocks))
    refused(path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE]
)
def test_a_link_in_place_of_an_entry_is_refused(whole: Path, tmp_path: Path, kind: bytes) -> None:
    entries = entries_of(whole)
    member = tarfile.TarInfo(PARTITIONS)
    member.type, member.linkname = kind, "/etc/passwd"
    link = member.tobuf(tarfile.USTAR_FORMAT)
    blocks = [
        link if name == PARTITIONS else tar_entry(name, data) for name, data in entries.items()
    ]
    path = tmp_path / "b.tar.gz"
    path.write_bytes(packed([*blocks, bytes(2 * BLOCK)]))
    refused(path)


def named(manifest: dict[str, Any], size: int, sha: str = "") -> bytes:
    """A manifest whose one entry says so of itself."""
    entry = {"name": GROUPS, "size": size, "sha256": sha, "read_at_ms": 0}
    return tar_entry(MANIFEST, json.dumps({**manifest, "entries": [entry]}).encode())


def bomb_by_its_size(manifest: dict[str, Any]) -> list[bytes]:
    """An entry that says it has more than all entries of a bundle together."""
    return [named(manifest, MOST_BYTES + 1), header_of(GROUPS, MOST_BYTES + 1, 0)]


def bomb_of_one_line(manifest: dict[str, Any]) -> list[bytes]:
    """32 MiB of blanks, which take 32 KiB in the file."""
    blanks = b" " * (32 << 20)
    said = named(manifest, len(blanks), sha256(blanks).hexdigest())
    return [said, tar_entry(GROUPS, blanks), bytes(2 * BLOCK)]


def bomb_of_a_manifest(_: dict[str, Any]) -> list[bytes]:
    return [header_of(MANIFEST, 1 << 30, 0), b" " * (32 << 20)]


@pytest.mark.parametrize("bomb", [bomb_by_its_size, bomb_of_one_line, bomb_of_a_manifest])
def test_a_bomb_takes_no_memory(
    whole: Path, tmp_path: Path, bomb: Callable[[dict[str, Any]], list[bytes]]
) -> None:
    path = tmp_path / "b.tar.gz"
    path.write_bytes(packed(bomb(json.loads(entries_of(whole)[MANIFEST]))))
    tracemalloc.start()
    try:
        refused(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 24 << 20


def test_s44_a_bundle_that_names_topics_without_end_is_refused_before_they_fill_the_memory(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = entries_of(whole)
    kept = [entries[name] for name in (CLUSTER, PARTITIONS, TOPICS, BROKERS)]
    monkeypatch.setattr(contents, "MOST_KEPT_BYTES", 10 * sum(map(len, kept)))
    topic = json.loads(entries[TOPICS].splitlines()[0])
    read: list[bytes] = []
    known = contents._TAKES[TOPICS]

    def counted(lines: Iterator[bytes]) -> Iterator[bytes]:
        for line in lines:
            read.append(line)
            yield line

    def take(reading: Any, name: str, lines: Iterator[bytes]) -> None:
        known(reading, name, counted(lines))

    monkeypatch.setattr(contents, "_TAKES", {**contents._TAKES, TOPICS: take})
    named = [json.dumps({**topic, "name": f"t{number}"}) for number in range(10_000)]
    entries[TOPICS] = "".join(f"{line}\n" for line in named).encode()
    refused(rebuilt(entries, tmp_path / "b.tar.gz"))
    assert 0 < len(read) < 10_000


def opened(data: bytes, path: Path) -> BundleContents | None:
    """What is in *data*; None where it was refused, as it has to be: with an error of ours."""
    path.write_bytes(data)
    try:
        return open_bundle(path)
    except errors.BreakglassError:
        return None


FUZZ = settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@FUZZ
@given(apply=damage(), within=st.booleans())
def test_damage_is_no_danger(apply: Damage, within: bool, whole: Path, tmp_path: Path) -> None:
    content = packed([apply(unpacked(whole))]) if within else apply(whole.read_bytes())
    opened(content, tmp_path / "fuzzed.tar.gz")


LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 0, 2**63, -(2**63), 10**400, 1.5, "", "\x1b[2J\u202e", [], {}, [[]], "NaN"]
)


def altered(value: Any, draw: Any) -> Any:
    """*value* with one leaf, field or element exchanged, dropped or doubled."""
    if draw(st.integers(0, 5)) == 0 or not isinstance(value, dict | list) or not value:
        return draw(LEAVES)
    if isinstance(value, list):
        place = draw(st.integers(0, len(value) - 1))
        what = draw(st.sampled_from(["in", "drop", "double"]))
        middle = {"in": [altered(value[place], draw)], "drop": [], "double": [value[place]] * 2}
        return [*value[:place], *middle[what], *value[place + 1 :]]
    key = draw(st.sampled_from(sorted(value)))
    return {**value, key: altered(value[key], draw)}


@FUZZ
@given(data=st.data())
def test_a_wrong_value_is_refused_or_judged(
    data: st.DataObject, whole: Path, tmp_path: Path
) -> None:
    entries = entries_of(whole)
    name = data.draw(st.sampled_from([name for name in entries if name != MANIFEST]))
    lines = [json.loads(line) for line in entries[name].splitlines()]
    place = data.draw(st.integers(0, max(len(lines) - 1, 0)))
    if lines:
        lines[place] = altered(lines[place], data.draw)
    entries[name] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    path = rebuilt(entries, tmp_path / "fuzzed.tar.gz")
    found = opened(path.read_bytes(), path)
    incident = None if found is None else found.incident()
    if incident is not None:
        assert incident.summary.headline
        assert len(list(incident.assessments())) == incident.judged


def test_a_bundle_without_a_cluster_opens_and_a_line_too_long_is_noted(tmp_path: Path) -> None:
    maker, path = BundleMaker(), tmp_path / "b.tar.gz"
    maker.lacks("the cluster", "no broker answers")
    names = ("g" * MOST_LINE_BYTES, "billing")
    maker.lines(GROUPS, [BundledOffset(name, "orders", 0, 1) for name in names])
    maker.write(path)
    found = open_bundle(path)
    assert found.incident() is None
    assert [part.what for part in found.manifest.unread] == ["the cluster", f"a line of {GROUPS}"]
    assert entries_of(path)[GROUPS].count(b"\n") == 1


def test_the_incident_of_a_bundle_is_that_of_the_capture(tmp_path: Path) -> None:
    live = every_verdict()
    maker_of(live).write(tmp_path / "b.tar.gz")
    found = open_bundle(tmp_path / "b.tar.gz").incident()
    assert found is not None
    assert (found.summary, found.snapshot) == (live.summary, live.snapshot)
    for row, was in zip(found.rows, live.rows, strict=True):
        assert (row.partition, row.judged, row.evidence) == (
            was.partition,
            was.judged,
            was.evidence,
        )


@pytest.mark.parametrize(
    "reason",
    [Unknown("why"), Denied("why", "READ on topic orders"), Silent("why"), Forfeited("why")],
    ids=lambda reason: type(reason).__name__,
)
def test_every_kind_of_unknown_keeps_its_kind(reason: Unknown) -> None:
    evidence = encode(replace(LEDGER, unread_floor=reason))
    found = decode(PartitionEvidence, json.loads(json.dumps(evidence))).unread_floor
    assert (type(found), found) == (type(reason), reason)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("leader", True), ("leader", "101"), ("leader_epoch", 1.0), ("leader_epoch", 2**63)),
        *(("high_watermark", None), ("voters", {}), ("voters", [{}]), ("more", 1)),
    ],
)
def test_a_field_of_another_type_is_unfit(field: str, value: Any) -> None:
    with pytest.raises(Unfit):
        decode(Quorum, {**encode(QUORUM), field: value})


def test_an_unknown_of_an_unknown_kind_and_endless_nesting_are_unfit() -> None:
    voter = encode(Voter(1, Unknown("why"), 0))
    voter["log_end_offset"]["kind"] = "zero"
    with pytest.raises(Unfit):
        decode(Voter, voter)
    document = encode(LogDir("/d", True, 1))
    for _ in range(DEEPEST + 1):
        document = {**encode(LogDir("/d", True, 1)), "copy": document}
    with pytest.raises(Unfit, match="without end"):
        decode(LogDir, document)
    with pytest.raises(TypeError):
        encode({"sasl.jaas.config": Secret("hunter2")})
