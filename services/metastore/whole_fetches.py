"""Reads a long command topic by whole fetches: commands as columns of what a broker answered.

What cannot be read like this is left to the consumer, which reads on from there: batches of older
message formats, damaged ones, and everything that comes after a broker did not answer.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING
from uuid import UUID

from breakglass.services.errors import ClusterError, LogTruncated, TopicRecreated, Unreachable
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.metastore.records import CommandRecord
from breakglass.services.metastore.topic_reader import LogCut, PolledCommands
from breakglass.services.metastore.topic_state import PARTITION, TopicState
from breakglass.services.model import TopicPartition, Unknown

if TYPE_CHECKING:
    from breakglass.services.metastore.columns import CommandColumns
    from breakglass.services.pipeline.batches.converting import FetchedBatches

WORTHWHILE = 20_000
"""Of so many offsets on, reading them is worth the start of NumPy and Arrow."""
PATIENCE_SECONDS = 2.0
"""How long a leader that does not answer is asked again, before the consumer reads on."""
FOR_COLUMNS = ("numpy", "pyarrow")
"""Of the extra `pipeline`, without which the consumer reads all."""
NO_END = 2**63 - 1


@dataclass(frozen=True, slots=True)
class StableLog:
    """What is read by whole fetches: committed commands with offsets in ``[start, end)``."""

    topic: str
    topic_id: str
    leader: int
    leader_epoch: int
    start: int
    end: int

    @property
    def worthwhile(self) -> bool:
        """Whether it is read by whole fetches."""
        return worthwhile(self.end - self.start)


def worthwhile(offsets: int) -> bool:
    """Whether so many are enough for whole fetches, and what those need is installed."""
    return offsets >= WORTHWHILE and all(map(find_spec, FOR_COLUMNS))


def stable_log(topic: str, state: TopicState) -> StableLog | None:
    """What consumers get of *topic* as it is; None where only a part of that is known."""
    start, end = state.log_start, state.stable_end
    if state.leader is None or isinstance(start, Unknown) or isinstance(end, Unknown):
        return None
    return StableLog(topic, state.topic_id, state.leader, state.leader_epoch, start, end)


def whole_fetches(client: ReadClient, log: StableLog) -> Generator[PolledCommands, None, None]:
    """The commands of *log*, as far as they can be read by whole fetches.

    Raises:
        LogCut: the topic is another one, or its log was cut back while it was read.
    """
    if not log.worthwhile:
        return
    from breakglass.services.pipeline.batches.reader import BatchReader
    from breakglass.services.pipeline.batches.varints import NotByColumns

    reader = BatchReader(
        client,
        TopicPartition(log.topic, PARTITION),
        UUID(log.topic_id),
        log.leader,
        log.leader_epoch,
        patience=PATIENCE_SECONDS,
    )
    at = log.start
    try:
        with closing(reader.fetches(at, log.end)) as fetches:
            for fetched in fetches:
                for batch in _batches(fetched, at):
                    at = batch.next_offset
                    yield batch
    except (LogTruncated, TopicRecreated) as error:
        raise LogCut(str(error)) from error
    except (NotByColumns, ClusterError, Unreachable):
        return


def commands_in(fetched: FetchedBatches, start: int) -> Iterator[CommandColumns]:
    """The committed commands of *fetched* from the offset *start* on; never none at once.

    Raises:
        NotByColumns: the consumer has to read them.
        MalformedMessage: bytes that are no batches.
    """
    from breakglass.services.metastore.columns import CommandColumns
    from breakglass.services.pipeline.batches.converting import columns_in

    for columns in columns_in(fetched, start, NO_END):
        yield CommandColumns.of(columns)


def _batches(fetched: FetchedBatches, start: int) -> Iterator[PolledCommands]:
    """The commands of *fetched*; after the last of them everything in it was passed."""
    last = fetched.last
    before: Sequence[CommandRecord] = ()
    for commands in commands_in(fetched, start):
        if before:
            yield PolledCommands(before, False, before[-1].offset + 1, last.epoch)
        before = commands
    yield PolledCommands(before, False, max(start, last.next_offset), last.epoch)
