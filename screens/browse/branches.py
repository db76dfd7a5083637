"""The tree of places as lines: what was looked up, what is open, why the rest is not there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from breakglass.services.browse.tree import PartitionNode, SegmentNode, TopicContents, TopicNode
from breakglass.services.model import Unknown

Key: TypeAlias = tuple[str, ...]
"""Place, topic, partition, segment, as far down as a line is."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One line."""

    key: Key
    node: str | TopicNode | PartitionNode | SegmentNode
    """A place is its URL."""
    opened: bool | None
    """None: nothing is below it in the tree."""
    held: TopicContents | None = None
    """Of a topic, once it was looked up."""
    note: str = ""
    """Why what is below is not there: ``reading``, or a reason."""

    @property
    def level(self) -> int:
        return len(self.key) - 1


@dataclass
class Tree:
    """What was looked up: topics of places, partitions of topics."""

    places: tuple[str, ...] = ()
    topics: dict[Key, tuple[TopicNode, ...] | Unknown] = field(default_factory=dict)
    held: dict[Key, TopicContents | Unknown] = field(default_factory=dict)
    opened: set[Key] = field(default_factory=set)
    reading: set[Key] = field(default_factory=set)

    def put(self, key: Key, found: object) -> None:
        """Take in what was found below *key*: of a place its topics, of a topic what it holds."""
        self.reading.discard(key)
        if len(key) == 1:
            assert isinstance(found, tuple | Unknown)
            self.topics[key] = found
        else:
            assert isinstance(found, TopicContents | Unknown)
            self.held[key] = found

    def known(self, key: Key) -> bool:
        """Whether what is below *key* was looked up, and found."""
        told = self.topics.get(key) if len(key) == 1 else self.held.get(key)
        return told is not None and not isinstance(told, Unknown)

    def forget(self) -> None:
        """Look everything up again when it is opened; what is open stays so."""
        self.topics.clear()
        self.held.clear()

    def lines(self, words: str = "") -> list[Branch]:
        """Every line that is to be seen; *words* have to be in the names of topics."""
        wanted = words.lower().split()
        found: list[Branch] = []
        for url in self.places:
            key = (url,)
            told = self.topics.get(key)
            opened = key in self.opened
            found.append(Branch(key, url, opened, note=self._note(key, told)))
            if opened and isinstance(told, tuple):
                for topic in told:
                    if all(word in topic.folder.lower() for word in wanted):
                        found += self._topic(topic)
        return found

    def _topic(self, topic: TopicNode) -> Iterator[Branch]:
        key = (topic.url, topic.folder)
        told = self.held.get(key)
        held = told if isinstance(told, TopicContents) else None
        opened = key in self.opened
        yield Branch(key, topic, opened, held, self._note(key, told))
        if opened and held is not None:
            yield from self._partitions(key, held.partitions)

    def _partitions(self, above: Key, partitions: Sequence[PartitionNode]) -> Iterator[Branch]:
        for one in partitions:
            key = (*above, str(one.partition))
            opened = key in self.opened
            yield Branch(key, one, opened)
            if opened:
                for segment in one.segments:
                    yield Branch((*key, segment.prefix), segment, None)

    def _note(self, key: Key, told: object) -> str:
        if key in self.reading:
            return "reading"
        return told.reason if isinstance(told, Unknown) else ""


def address_of(branch: Branch) -> tuple[str, int | None]:
    """The address of the records at *branch*, and where to begin; empty where there are none."""
    node = branch.node
    if isinstance(node, PartitionNode):
        return node.address, None
    if isinstance(node, SegmentNode):
        first = node.first_offset if isinstance(node.first_offset, int) else node.start_offset
        return f"backup:{node.url}/{node.folder}/{node.partition}", first
    return "", None
