"""Any offline partition: replicas read or not, fenced or not, of every role."""

from dataclasses import replace

from hypothesis import strategies as st

from breakglass.services.model import (
    CONTENTS_UNREAD,
    LogContents,
    PartitionEvidence,
    Reassignment,
    ReplicaLog,
    Role,
    Unknown,
)
from tests.unit.recovery.replicas import PLAIN, log, offline, silent, without_epochs

UNTOLD: bool | Unknown = Unknown("not told")

_fencing: st.SearchStrategy[bool | Unknown] = st.sampled_from([True, False, False, UNTOLD])
_directories: st.SearchStrategy[bool | Unknown] = st.sampled_from([True, True, True, False, UNTOLD])
_roles = st.sampled_from([Role.STALE, Role.STALE, Role.ISR, Role.ELR, Role.LAST_KNOWN_ELR])
_marks: st.SearchStrategy[int | Unknown] = st.one_of(
    st.integers(0, 6), st.just(Unknown("high watermark 0 after kill -9"))
)
_contents: st.SearchStrategy[LogContents | Unknown] = st.one_of(
    st.just(CONTENTS_UNREAD),
    st.builds(LogContents, st.integers(0, 8), st.integers(0, 8), st.none()),
    st.builds(LogContents, st.integers(0, 8), st.integers(0, 8), st.integers(0, 8)),
)
_moves: st.SearchStrategy[Reassignment | None | Unknown] = st.sampled_from(
    [None, None, None, Reassignment((9,), ()), Unknown("not told")]
)


@st.composite
def replica_logs(draw: st.DrawFn, broker: int) -> ReplicaLog:
    """One replica: read, silent, or read without epochs."""
    fenced, role = draw(_fencing), draw(_roles)
    kind = draw(st.sampled_from(["read", "read", "read", "silent", "no epochs"]))
    if kind == "silent":
        return silent(broker, fenced=fenced, role=role)
    if kind == "no epochs":
        told = without_epochs(broker, draw(st.integers(0, 6)), role=role)
        return replace(told, fenced=fenced)
    epochs = sorted(draw(st.sets(st.integers(0, 4), max_size=3)))
    ends = sorted(draw(st.sets(st.integers(1, 8), min_size=len(epochs), max_size=len(epochs))))
    told = log(
        broker,
        *zip(epochs, ends, strict=True),
        fenced=fenced,
        role=role,
        hw=draw(_marks),
        log_dir_online=draw(_directories),
    )
    return replace(told, contents=draw(_contents))


@st.composite
def partitions(draw: st.DrawFn) -> PartitionEvidence:
    """A partition of one to four such replicas."""
    brokers = draw(st.permutations([1, 2, 3, 4]))[: draw(st.integers(1, 4))]
    return offline(
        *[draw(replica_logs(broker)) for broker in brokers],
        topic=draw(st.sampled_from(["orders", "__consumer_offsets"])),
        floor=draw(st.sampled_from([None, 0, 3, 9])),
        reassignment=draw(_moves),
        unregistered=draw(st.sampled_from([(), (), (), (brokers[0],)])),
        settings=replace(PLAIN, unclean_election=draw(_directories)),
    )
