"""What is asked of a checkpoint in words: the options of its commands, typed on screen too."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from breakglass.services.checkpoint.kafka.control import CONTROL_TOPIC
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.errors import UsageError

DRAIN_SECONDS = 60.0
_RATE = re.compile(r"([0-9]{1,9})([kMG]?)B/s", re.ASCII)
_UNITS = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_SECONDS = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?", re.ASCII)
_TAKE = ("--topics", "--group", "--level", "--max-rate", "--drain", "--control-topic")
_RESTORE = ("--map", "--suffix", "--control-topic")
_RESTORE_FLAGS = ("--resume",)
_REPEATABLE = ("--group", "--map")


@dataclass(frozen=True, slots=True)
class TakeAsked:
    """What a checkpoint is to be of, and how it is copied."""

    topics: tuple[str, ...]
    groups: Mapping[str, GroupPolicy] = field(default_factory=dict)
    level: Level = Level.COORDINATED
    bytes_per_second: float | None = None
    drain_seconds: float = DRAIN_SECONDS
    control_topic: str = CONTROL_TOPIC


@dataclass(frozen=True, slots=True)
class RestoreAsked:
    """Where a checkpoint is to be restored."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """New name by old one."""
    suffix: str = ""
    """Put behind the name of every topic that is not among them."""
    resume: bool = False
    control_topic: str = CONTROL_TOPIC


def take_asked(text: str) -> TakeAsked:
    """What ``--topics A,B --group NAME=POLICY --level LEVEL ...`` asks for.

    Raises:
        UsageError: it cannot be read, or names no topic.
    """
    given = _options(text, _TAKE)
    topics = tuple(filter(None, ("".join(given.get("--topics", ()))).split(",")))
    if not topics:
        raise UsageError("No topic is named: write --topics A,B.")
    drain = _last(given, "--drain", f"{DRAIN_SECONDS:g}")
    if not _SECONDS.fullmatch(drain) or not float(drain):
        raise UsageError(f"--drain {drain!r} is no time: write seconds, as 60.")
    return TakeAsked(
        topics,
        policies(given.get("--group")),
        _level(_last(given, "--level", Level.COORDINATED)),
        bytes_per_second(given["--max-rate"][-1] if "--max-rate" in given else None),
        float(drain),
        _last(given, "--control-topic", CONTROL_TOPIC),
    )


def restore_asked(text: str) -> RestoreAsked:
    """What ``--map OLD=NEW --suffix TEXT --resume ...`` asks for.

    Raises:
        UsageError: it cannot be read.
    """
    given = _options(text, _RESTORE, _RESTORE_FLAGS)
    renamed = {}
    for pair in given.get("--map", ()):
        old, _, new = pair.partition("=")
        if not old or not new:
            raise UsageError(f"--map {pair!r} is not written OLD=NEW: write it so.")
        renamed[old] = new
    return RestoreAsked(
        renamed,
        _last(given, "--suffix", ""),
        "--resume" in given,
        _last(given, "--control-topic", CONTROL_TOPIC),
    )


def same_again(found: StoredCheckpoint) -> str:
    """The options that ask for another checkpoint of the same; empty where nobody asked for it."""
    if found.take is None:
        return ""
    topics = sorted({one.topic for one in found.take.partitions})
    words = ["--topics", ",".join(topics)]
    for name, policy in sorted(found.take.groups.items()):
        words += ["--group", f"{name}={policy}"]
    return shlex.join([*words, "--level", found.take.level])


def new_names(
    found: StoredCheckpoint, renamed: Mapping[str, str], suffix: str
) -> Mapping[str, str]:
    """The new name of each topic of *found* that gets one, for `CheckpointRestoreOptions`."""
    subjects = (one.subject for one in found.partitions)
    topics = {one.topic for one in subjects if one is not None}
    behind = {one: f"{one}{suffix}" for one in topics} if suffix else {}
    return {**behind, **renamed}


def policies(given: Iterable[str] | None) -> dict[str, GroupPolicy]:
    """The groups that the options name, each with its policy.

    Raises:
        UsageError: one is not written NAME=POLICY, or is named twice.
    """
    found: dict[str, GroupPolicy] = {}
    for text in given or ():
        name, _, policy = text.rpartition("=")
        if not name or policy not in set(GroupPolicy) or name in found:
            raise UsageError(
                f"--group {text!r} is not written NAME=exactly-once or NAME=at-least-once, or is "
                "named twice: write each group once, so."
            )
        found[name] = GroupPolicy(policy)
    return found


def bytes_per_second(text: str | None) -> float | None:
    """The rate that ``--max-rate`` names. Raises UsageError where it names none."""
    if text is None:
        return None
    match = _RATE.fullmatch(text)
    if match is None or not int(match[1]):
        raise UsageError(f"--max-rate {text!r} is no rate: write it as 20MB/s or 500kB/s.")
    return float(int(match[1]) * _UNITS[match[2]])


def _level(text: str) -> Level:
    if text not in set(Level):
        raise UsageError(f"--level {text!r} is none: write one of {', '.join(Level)}.")
    return Level(text)


def _last(given: Mapping[str, Sequence[str]], name: str, default: str) -> str:
    return given[name][-1] if name in given else default


def _options(
    text: str, valued: Collection[str], flags: Collection[str] = ()
) -> dict[str, list[str]]:
    """The values of each option in *text*; those of *flags* have none."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"This cannot be read ({error}): close what is quoted.") from None
    found: dict[str, list[str]] = {}
    while words:
        name = words.pop(0)
        if name in flags:
            found[name] = []
            continue
        if name not in valued:
            known = ", ".join([*valued, *flags])
            raise UsageError(f"{name} is no option here: there are {known}.")
        if not words:
            raise UsageError(f"{name} has no value: write it behind it.")
        if name in found and name not in _REPEATABLE:
            raise UsageError(f"{name} is there twice: write it once.")
        found.setdefault(name, []).append(words.pop(0))
    return found
