"""What a lost quorum had, by Kafka's own DumpLogSegments, and whether what came back is that.

Nothing of services/quorum is used. Every copy is dumped, ranked and replayed here by brute force; a
state is one dictionary, from what a value is of to the value, and two states differ key by key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breakglass.bookkeeping.log_files import FolderLog, digest, read_folder
from breakglass.services.lab.distribution import Distribution, run_tool

State = dict[tuple[Any, ...], Any]
OPERATIONS = {3: "read", 4: "write"}
WORDS = ("topics created", "topics deleted", "topics grown", "settings", "ACLs", "SCRAM users")
NAMED = (*WORDS, "quotas")
MOVES = "ISR and leader changes"
_BATCH = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) .*partitionLeaderEpoch: (\d+) .* crc: (\d+) isvalid: true"
)
_OFFSET = re.compile(r"\boffset: (\d+)")
_FOLDER = re.compile(r"(.+)-(\d+)")


@dataclass(slots=True)
class DumpedCopy:
    """A copy of the metadata log, as Kafka's tool reads it."""

    path: Path
    batches: list[tuple[int, int, int, int]] = field(default_factory=list)
    """First offset, last offset, epoch, CRC."""
    records: list[tuple[int, str, Mapping[str, Any]]] = field(default_factory=list)
    snapshots: dict[tuple[int, int], list[tuple[str, Mapping[str, Any]]]] = field(
        default_factory=dict
    )
    """By offset and epoch."""

    @property
    def end(self) -> tuple[int, int]:
        """Last epoch and log end, by which raft elects."""
        ends = [(offset, epoch) for offset, epoch in self.snapshots]
        ends += [(last + 1, epoch) for _, last, epoch, _ in self.batches[-1:]]
        offset, epoch = max(ends, default=(0, 0))
        return epoch, offset

    def shared_with(self, best: DumpedCopy) -> int:
        """The offset up to which both have the same, by batch."""
        start = max(self.begins, best.begins)
        mine, its = ([one for one in copy.batches if one[0] >= start] for copy in (self, best))
        for number, batch in enumerate(mine):
            if number >= len(its) or its[number] != batch:
                return batch[0]
        return self.end[1]

    @property
    def begins(self) -> int:
        return self.batches[0][0] if self.batches else self.end[1]

    def state(self, end: int) -> State:
        """The state before *end*."""
        starts = [offset for offset, _ in self.snapshots if offset <= end]
        start = max(starts, default=0)
        state: State = {}
        for (offset, _), records in self.snapshots.items():
            if offset == start:
                for kind, data in records:
                    apply(state, kind, data)
        for offset, kind, data in self.records:
            if start <= offset < end:
                apply(state, kind, data)
        return state


def apply(state: State, kind: str, data: Mapping[str, Any]) -> None:
    """Put a metadata record into *state*."""
    match kind:
        case "TOPIC_RECORD":
            state["topic", data["topicId"]] = data["name"]
        case "PARTITION_RECORD" | "PARTITION_CHANGE_RECORD":
            key = ("partition", data["topicId"], data["partitionId"])
            given = {name: value for name, value in data.items() if value is not None}
            if kind == "PARTITION_RECORD":
                state.pop(key, None)
            old = state.get(key, {"leaderEpoch": -1, "eligibleLeaderReplicas": []})
            leads = given.get("leader", -2) != -2
            epoch = data.get("leaderEpoch", old["leaderEpoch"] + 1 if leads else old["leaderEpoch"])
            if not leads:
                given.pop("leader", None)
            state[key] = {**old, **given, "leaderEpoch": epoch}
        case "REMOVE_TOPIC_RECORD":
            name = state.get(("topic", data["topicId"]))
            for key in [
                one for one in state if one[1] == data["topicId"] or one[:2] == ("setting", name)
            ]:
                del state[key]
        case "CONFIG_RECORD" if data["resourceType"] == 2:
            _put(state, ("setting", data["resourceName"], data["name"]), data["value"])
        case "ACCESS_CONTROL_ENTRY_RECORD":
            names = ("principal", "operation", "resourceName")
            state["acl", data["id"]] = tuple(data[name] for name in names)
        case "REMOVE_ACCESS_CONTROL_ENTRY_RECORD":
            state.pop(("acl", data["id"]), None)
        case "USER_SCRAM_CREDENTIAL_RECORD":
            state["scram", data["name"]] = str(data["salt"])
        case "REMOVE_USER_SCRAM_CREDENTIAL_RECORD":
            state.pop(("scram", data["name"]), None)
        case "CLIENT_QUOTA_RECORD":
            user = data["entity"][0]["entityName"]
            value = None if data["remove"] else float(data["value"])
            _put(state, ("quota", user, data["key"]), value)


def _put(state: State, key: tuple[Any, ...], value: object) -> None:
    state.pop(key, None)
    if value is not None:
        state[key] = value


def dump(kafka: Distribution, folders: Iterable[Path]) -> list[DumpedCopy]:
    """Every copy, dumped by one run of Kafka's tool."""
    copies = {folder: DumpedCopy(folder) for folder in folders}
    files = [
        file
        for folder in copies
        for file in sorted([*folder.glob("*.log"), *folder.glob("*.checkpoint")])
        if file.stat().st_size
    ]
    asked = ("--cluster-metadata-decoder", "--files", ",".join(map(str, files)))
    said = run_tool(kafka, "org.apache.kafka.tools.DumpLogSegments", asked).stdout
    for part in re.split(r"^Dumping ", said, flags=re.MULTILINE)[1:]:
        path = Path(part.split("\n", 1)[0])
        copy = copies[path.parent]
        rows: list[tuple[str, Mapping[str, Any]]] | None = None
        if path.suffix == ".checkpoint":
            offset, epoch = path.stem.split("-")
            rows = copy.snapshots.setdefault((int(offset), int(epoch)), [])
        for line in part.splitlines()[1:]:
            batch, at = _BATCH.search(line), _OFFSET.search(line)
            if "isvalid: false" in line:
                break
            if batch and rows is None:
                first, last, epoch_, crc = map(int, batch.groups())
                copy.batches.append((first, last, epoch_, crc))
            elif at and " payload: " in line:
                content = json.loads(line.partition(" payload: ")[2])
                if rows is not None:
                    rows.append((content["type"], content["data"]))
                else:
                    copy.records.append((int(at[1]), content["type"], content["data"]))
    return list(copies.values())


def said_differences(old: State, new: State) -> set[tuple[str, str]]:
    """Kind and words of all that makes *new* of *old*, as an operator would read them."""
    found: set[tuple[str, str]] = set()
    changed = [key for key in {*old, *new} if old.get(key) != new.get(key)]
    for key in changed:
        found |= set(_said(key, old, new))
    return found


def _said(key: tuple[Any, ...], old: State, new: State) -> Iterator[tuple[str, str]]:
    before: Any = old.get(key)
    after: Any = new.get(key)
    verb = "added" if before is None else "removed" if after is None else "changed"
    state = new if after is not None else old
    match key:
        case "topic", topic_id:
            number = len(_numbers(state, topic_id))
            noun = "partition" if number == 1 else "partitions"
            kind = "topics created" if before is None else "topics deleted"
            yield kind, f"{state[key]} ({number} {noun}, id {topic_id})"
        case "partition", topic_id, number if ("topic", topic_id) in {*old} & {*new}:
            name = state["topic", topic_id]
            if before is None:
                made = _numbers(new, topic_id) - _numbers(old, topic_id)
                words = f"{name} from {min(made)} to {max(made) + 1} partitions"
                yield "topics grown", words
            elif any(
                before.get(one) != after.get(one)
                for one in ("isr", "leader", "leaderEpoch", "eligibleLeaderReplicas")
            ):
                yield MOVES, f"{name}-{number}"
        case "setting", topic, name:
            yield "settings", f"topic {topic}: {name} {before or 'unset'} -> {after or 'unset'}"
        case "acl", _:
            principal, operation, topic = state[key]
            words = f"{verb} allow {principal} {OPERATIONS[operation]} on topic {topic}"
            yield "ACLs", f"{words} (literal) from *"
        case "scram", user:
            yield "SCRAM users", f"{verb} {user} (SCRAM-SHA-256)"
        case "quota", user, name:
            shown = ["unset" if one is None else f"{one:g}" for one in (before, after)]
            yield "quotas", f"user {user}: {name} {' -> '.join(shown)}"


def _numbers(state: State, topic_id: str) -> set[int]:
    return {key[2] for key in state if key[:2] == ("partition", topic_id)}


def plain(state: State) -> State:
    """What clients can see of *state*, without Kafka's own topics."""
    names = {key[1]: name for key, name in state.items() if key[0] == "topic"}
    seen: State = {}
    for key, value in state.items():
        match key:
            case "topic", topic_id if not value.startswith("__"):
                seen[key] = (value, len(_numbers(state, topic_id)))
            case "setting", topic, _ if not topic.startswith("__") and topic in names.values():
                seen[key] = value
            case "acl", _:
                seen["acl", *value] = True
            case "scram", user:
                seen["scram", user] = True
            case "quota", _, _:
                seen[key] = value
    return seen


@dataclass(frozen=True, slots=True)
class Replica:
    """A folder of a partition on a disk that is left."""

    broker: int
    path: Path
    topic_id: str
    partition: int
    log: FolderLog


def replicas(log_dirs: Mapping[int, Sequence[Path]]) -> list[Replica]:
    """Every folder of a partition, but for Kafka's own topics."""
    found = []
    for broker, folders in log_dirs.items():
        for path in (path for folder in folders for path in sorted(folder.glob("t*-*"))):
            name, meta = _FOLDER.fullmatch(path.name), path / "partition.metadata"
            if name and meta.exists():
                topic_id = meta.read_text().split("topic_id: ")[1].strip()
                log = read_folder(path)
                found.append(Replica(broker, path, topic_id, int(name[2]), log))
    return found


@dataclass(slots=True)
class Verdict:
    """What the judge found, and how much it compared."""

    findings: list[str] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)

    def require(self, so: object, finding: str) -> None:
        if not so:
            self.findings.append(finding)

    def count(self, name: str, number: int = 1) -> None:
        self.figures[name] = self.figures.get(name, 0) + number


def judge_inspection(verdict: Verdict, copies: Sequence[DumpedCopy], said: Any) -> DumpedCopy:
    """What `quorum inspect --json` said of each copy, against brute force; returns the best."""
    best = max(copies, key=lambda copy: copy.end)
    by_path = {str(copy.path): copy for copy in copies}
    chosen = by_path[said["best"]]
    verdict.require(
        chosen.end == best.end, f"the best copy is {best.path} {best.end}, not {chosen.path}"
    )
    best = chosen
    for row in said["copies"]:
        copy = by_path[row["path"]]
        own = (row["last_epoch"], row["log_end"])
        verdict.require(own == copy.end, f"{copy.path} ends at {copy.end}, not at {own}")
        verdict.count("copies compared")
        shared = copy.shared_with(best)
        verdict.require(row["shared"] == shared, f"{copy.path} shares {shared}: {row}")
        forked = shared != copy.end[1]
        verdict.count("forks", forked)
        verdict.require(
            (row["relation"] == "fork") == forked, f"{copy.path}: {row['relation']}, {shared}"
        )
    for lack in said["lacks"]:
        copy = by_path[lack["path"]]
        shared = copy.shared_with(best)
        records = best.end[1] - shared
        verdict.require(lack["records"] == records, f"{copy.path} lacks {records}: {lack}")
        verdict.count("records that copies lack", records)
        source = copy if copy.begins <= shared else best
        expected = said_differences(source.state(shared), best.state(best.end[1]))
        expected = {one for one in expected if one[0] in (*NAMED, MOVES)}
        if not isinstance(lack["changes"], list):
            verdict.findings.append(f"{copy.path}: changes {lack['changes']}, {expected}")
            continue
        named = {
            (one["kind"], one["what"].partition(":")[0] if one["kind"] == MOVES else one["what"])
            for one in lack["changes"]
            if one["kind"] in (*NAMED, MOVES)
        }
        verdict.count("changes that copies lack", len(expected))
        verdict.require(
            named == expected,
            f"{copy.path} lacks {sorted(expected - named)}, and not {sorted(named - expected)}",
        )
    return best


def judge_state(
    verdict: Verdict,
    plan: Any,
    states: Mapping[str, State],
    left: Sequence[Replica],
    ghosts: Collection[tuple[Any, ...]],
) -> None:
    """What is there after the return, against what was acknowledged and what the plan said.

    *states* are the `truth`, the `best` copy's, the `chosen` copy's, and the `final` one. *ghosts*
    are settings of deleted topics: if Kafka 4.3.1 loads setting, deletion and a new topic of that
    name at once, the new topic has the setting.
    """
    truth, final = states["truth"], states["final"]
    best, chosen = plain(states["best"]), plain(states["chosen"])
    lines = set(plan["lost"]["changes"])
    strays = {one["path"] for one in plan["lost"]["strays"]}
    folders = {(one.topic_id, one.partition): one for one in left}
    unknown = " ".join((*plan["unknown"], *plan["consent"]))
    unread = plan["missing"] or plan["lost"]["damaged"] or plan["lost"]["records"] is None
    for key in {*truth, *final, *best}:
        said = {
            f"{kind}: {words}"
            for kind, words in said_differences(states["chosen"], states["best"])
            if _is_of(key, kind, words, states)
        }
        if said & lines and final.get(key) == best.get(key) != chosen.get(key):
            verdict.findings.append(f"{key} is said to be lost and is there: {said & lines}")
        if truth.get(key) == final.get(key):
            continue
        if (key, final.get(key)) in ghosts:
            verdict.count("settings of deleted topics that Kafka loads again")
            continue
        sentence = f"{key} was {truth.get(key)} and is {final.get(key)}"
        mine = [one for (topic, _), one in folders.items() if topic == key[1]]
        if best.get(key) == truth.get(key):
            verdict.count("changes lost and named")
            verdict.require(said & lines, f"{sentence}; the best copy has it, and it is not named")
        elif key[0] == "topic" and key not in truth:
            verdict.count("deleted topics that came back")
            verdict.require(final[key][0] in unknown, f"{sentence}: that it may is not said")
        elif key[0] == "topic" and any(str(one.path) not in strays for one in mine):
            kept = {one.partition for one in mine if str(one.path) not in strays}
            got = final[key][1] if key in final else 0
            verdict.require(kept <= {*range(got)}, f"{sentence}; its folders {kept} are no strays")
            verdict.count("topics without some partitions")
        else:
            verdict.count("changes that no copy has")
            verdict.require(
                unread or final.get(key) == best.get(key) == chosen.get(key),
                f"{sentence}; no copy has it, and nothing is said to be missing",
            )


def _is_of(key: tuple[Any, ...], kind: str, words: str, states: Mapping[str, State]) -> bool:
    match key:
        case "topic", topic_id:
            names = {state.get(key) for state in (states["best"], states["chosen"])}
            grown = kind == "topics grown" and words.split()[0] in names
            return kind.startswith("topics") and (str(topic_id) in words or grown)
        case "setting", topic, name:
            return kind == "settings" and words.startswith(f"topic {topic}: {name} ")
        case "acl", principal, operation, topic:
            return (
                kind == "ACLs" and f"{principal} {OPERATIONS[operation]} on topic {topic} " in words
            )
        case "scram", user:
            return kind == "SCRAM users" and f" {user} " in words
        case "quota", user, name:
            return kind == "quotas" and words.startswith(f"user {user}: {name} ")
    return False


Record = tuple[str, int, int, bytes]
"""Topic id, partition, offset and value of a record that was acknowledged."""


def judge_records(
    verdict: Verdict,
    plan: Any,
    acked: Sequence[Record],
    left: Sequence[Replica],
    found: Mapping[tuple[str, int], Mapping[int, bytes]],
    offline: Iterable[tuple[str, int]],
) -> None:
    """Every acknowledged record that a disk still had is there, or its folder was named.

    *found* has what clients read, by partition and offset; partitions in *offline* have no leader.
    """
    strays = {one["path"] for one in plan["lost"]["strays"]}
    cuts = {line.partition(":")[0] for line in plan["lost"]["truncated"]}
    holders: dict[tuple[str, int], list[Replica]] = {}
    for one in left:
        holders.setdefault((one.topic_id, one.partition), []).append(one)
    kept = {one.path: {record.offset: record.digest for record in one.log.records} for one in left}
    for topic_id, partition, offset, value in acked:
        place = (topic_id, partition)
        verdict.count("records acknowledged")
        if found.get(place, {}).get(offset) == value:
            continue
        having = [
            str(one.path)
            for one in holders.get(place, ())
            if kept[one.path].get(offset) == digest(None, value)
        ]
        if not having:
            verdict.count("records on lost disks alone")
            verdict.require(plan["missing"], f"{place} {offset} is on no disk, and none is missing")
        elif place in offline:
            verdict.count("records of partitions without a leader")
        else:
            verdict.count("records lost and named")
            verdict.require(
                {*having} <= strays | cuts, f"{place} {offset} is lost; {having} had it"
            )
    for one in left:
        if str(one.path) in cuts:
            there = found.get((one.topic_id, one.partition), {})
            same = [
                at for at, known in kept[one.path].items() if digest(None, there.get(at)) == known
            ]
            verdict.require(
                len(same) < len(kept[one.path]), f"{one.path} is said to be cut, and was not"
            )
