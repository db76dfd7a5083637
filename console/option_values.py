"""What the values of options mean: names, partitions, pairs, amounts, moments, stores, consent."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from breakglass.console.output import say
from breakglass.services.errors import UsageError
from breakglass.services.model import TopicPartition
from breakglass.services.words.moments import moment_in

if TYPE_CHECKING:
    from breakglass.services.snapshot import ClusterSnapshot
    from breakglass.services.topic_backup.store.blobs import Key
    from breakglass.services.topic_backup.store.store import Store

T = TypeVar("T")


def names_in(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """The names in ``A,B``, given once or repeated, each once; none where nothing was given.

    Raises UsageError: what was given has no name, or a wildcard, which no list of names takes.
    """
    text = given if isinstance(given, str) else ",".join(given or ())
    found = tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
    if given is not None and len(given) + isinstance(given, str) and not found:
        raise UsageError(
            "A list of names is empty, and without the option it would mean all: write A,B, or "
            "leave the option out."
        )
    for name in found:
        if "*" in name or "?" in name:
            raise UsageError(
                f"{name!r} is a pattern, and this option takes whole names. `backup run "
                "--topics-regex` takes a regular expression, as kee.* for all that begin with kee."
            )
    return found


def amount(option: str, read: Callable[[str], T]) -> Callable[[object], T]:
    """A parser of *option* that reads an amount; the default, which is no text, stays as it is.

    The parser raises UsageError where *read* raises ValueError.
    """

    def parse(given: object) -> T:
        if not isinstance(given, str):
            return given  # type: ignore[return-value]
        try:
            return read(given)
        except ValueError as error:
            raise UsageError(f"{option} {error}.") from None

    return parse


def store_of(address: str, key_from: str | None) -> Store:
    """The place of topic backups.

    Raises UsageError: *address* is not a place, or there is no key where it should be.
    """
    from breakglass.services.topic_backup.store.store import open_store

    return open_store(address, key_of(key_from))


def key_of(key_from: str | None) -> Key | None:
    """The key that `--key` names. Raises as `store_of`."""
    from breakglass.services.topic_backup.store.blobs import read_key

    return read_key(key_from) if key_from is not None else None


def broker_ids(given: Sequence[str] | None, option: str) -> tuple[int, ...]:
    """The brokers that *option* names: ``4 7``, ``4,7``, ``b4``, or given again and again.

    Raises UsageError: a word of it is no id.
    """
    from breakglass.services.words.figures import brokers_among

    try:
        return brokers_among(given or ())
    except ValueError:
        raise UsageError(
            f"{option} {' '.join(given or ())!r} names no brokers: write their ids, as 4 7 or 4,7."
        ) from None


def spread(args: Sequence[str], option: str) -> list[str]:
    """*args* with *option* repeated before each id that follows its first, as in ``--gone 4 7``."""
    from breakglass.services.words.figures import names_brokers

    written: list[str] = []
    first_comes = more_may_come = False
    for word in args:
        if more_may_come and names_brokers(word):
            written.append(option)
        else:
            more_may_come = first_comes or word.startswith(f"{option}=")
            first_comes = word == option
        written.append(word)
    return written


def pairs_in(
    given: Sequence[str] | None, option: str, *, form: str = "NAME=VALUE", empty: bool = False
) -> dict[str, str]:
    """What each *option* says, by the name before its first ``=``.

    Raises UsageError: one is not of the *form*, or has no value and may not be *empty*.
    """
    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals and (value or empty)):
            raise UsageError(f"{option} {text!r} is not written {form}: write it so.")
        found[name] = value
    return found


def moment_ms(text: str | None, option: str) -> int | None:
    """The milliseconds since 1970 of a moment; None where nothing was given.

    Raises UsageError: what *option* says is none.
    """
    if text is None:
        return None
    try:
        return moment_in(text)
    except ValueError:
        raise UsageError(
            f"{option} {text!r} is no time: write it as 2026-01-31T12:00:00Z, or in ms."
        ) from None


_PARTITION = re.compile(r"(?P<topic>.+)-(?P<number>\d{1,10}|\*)")
_BROKER = re.compile(r"b?(\d{1,10})")


def partitions_named(
    names: Iterable[str], known: Collection[TopicPartition]
) -> tuple[TopicPartition, ...]:
    """The partitions of *names*, each once; ``orders-*`` stands for those of *known*.

    Raises UsageError: a name that is none, or a topic of which nothing is known.
    """
    found = (partition for name in names for partition in _named(name, known))
    return tuple(dict.fromkeys(found))


def leaders_named(
    texts: Iterable[str], known: Collection[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """The leader of each partition, from ``orders-3=1`` or ``orders-*=b1``.

    Raises UsageError: a text that is not of this form, or a partition with two leaders.
    """
    leaders: dict[TopicPartition, int] = {}
    for text in texts:
        name, separator, broker = text.rpartition("=")
        matched = _BROKER.fullmatch(broker)
        if not separator or matched is None:
            raise UsageError(f"{text!r} is not TOPIC-PARTITION=BROKER: write it like orders-3=1.")
        for partition in _named(name, known):
            wanted = int(matched[1])
            if leaders.setdefault(partition, wanted) != wanted:
                raise UsageError(f"{partition} is given two leaders: keep one of them.")
    return leaders


def require_topics(names: Collection[str], snapshot: ClusterSnapshot) -> None:
    """See that the cluster has every topic of *names*. Raises UsageError: it has not."""
    known = {state.partition.topic for state in snapshot.partitions}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(
            f"Cluster {snapshot.cluster_id} has no topic {', '.join(unknown)}: correct the name, "
            "or leave --topics out for all."
        )


def _named(name: str, known: Collection[TopicPartition]) -> Iterable[TopicPartition]:
    matched = _PARTITION.fullmatch(name)
    if matched is None:
        raise UsageError(f"{name!r} is not TOPIC-PARTITION: write it like orders-3 or 'orders-*'.")
    topic, number = matched["topic"], matched["number"]
    if number != "*":
        return (TopicPartition(topic, int(number)),)
    members = [partition for partition in known if partition.topic == topic]
    if not members:
        raise UsageError(f"The plan has no partition of topic {topic}: name one that it has.")
    return members


@dataclass(frozen=True, slots=True)
class Consent:
    """How a command gets the operator's word."""

    given: tuple[str, ...] = ()
    """The phrases of `--consent`."""
    implied: bool = False
    """The command's own flag is the consent: kafka-unclean-recovery --automated-recovery."""

    def require(self, phrases: Sequence[str]) -> Sequence[str]:
        """Return *phrases* when each of them was given, or is typed now.

        Raises ConsentMissing: one of them was not given, or differs.
        """
        from breakglass.services.guard.consent import (
            ConsentPhrase,
            require_consent,
            require_phrases,
        )

        if self.implied:
            return phrases
        given = list(self.given)
        if not given and sys.stdin.isatty():
            for phrase in phrases:
                say(f"Type {phrase!r} to confirm:")
                given.append(sys.stdin.readline().rstrip("\n"))
                require_consent(given[-1], phrase)
        require_phrases(given, [ConsentPhrase(phrase) for phrase in phrases])
        return phrases
