"""The search through a leader epoch cache, against a model of Kafka's own."""

from hypothesis import assume, event, given
from hypothesis import strategies as st

from breakglass.services.kafka.replicas.epoch_ends import EpochEnd, EpochWalk
from tests.unit.kafka.replicas.replica_model import ModelReplica

LARGEST_EPOCH = 2**31 - 1
_gaps = st.one_of(st.just(1), st.integers(1, 3), st.integers(1, 2**27))
_steps = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 5)),
    st.tuples(st.just("append"), st.integers(1, 5)),
    st.tuples(st.just("next"), _gaps),
    st.tuples(st.just("lead"), _gaps),
    st.tuples(st.just("truncate"), st.integers(0, 12)),
    st.tuples(st.just("expire"), st.integers(1, 12)),
    st.tuples(st.just("start over"), st.integers(0, 40)),
)


@st.composite
def replicas(draw: st.DrawFn) -> tuple[ModelReplica, int]:
    """A replica after up to thirty steps as leader and follower, and the current leader epoch."""
    replica, epoch = ModelReplica(), draw(st.one_of(st.just(0), st.integers(0, 2**27)))
    for name, number in draw(st.lists(_steps, max_size=30)):
        if name == "append":
            replica.append(epoch, number)
        elif name == "truncate":
            replica.truncate(replica.end - number)
        elif name == "expire":
            replica.delete_below(replica.start + number)
        elif name == "start over":
            replica.start_over(number)
        else:
            epoch = min(LARGEST_EPOCH, epoch + number)
            if name == "lead":
                replica.lead(epoch)
    return replica, min(LARGEST_EPOCH, epoch + draw(st.integers(0, 3)))


def walked(walk: EpochWalk, replica: ModelReplica) -> int:
    """Answer *walk* out of *replica* until it asks no more; how many questions that took."""
    questions = 0
    while walk.question is not None:
        questions += 1
        assert questions < 1_000, "the walk does not end"
        walk.answer(*replica.answer(walk.question))
    return questions


class TestAgainstTheModel:
    @given(replicas(), st.one_of(st.just(True), st.none(), st.integers(-1, LARGEST_EPOCH)))
    def test_the_whole_history_is_what_the_records_say_whatever_hint_is_given(
        self, case: tuple[ModelReplica, int], hint: int | bool | None
    ) -> None:
        replica, current = case
        walk = EpochWalk(replica.end, current, replica.newest_epoch if hint is True else hint)
        walked(walk, replica)
        event(f"{min(len(replica.ranges), 4)} epochs")
        if walk.astray:
            walk.start_at(replica.start)
        assert walk.history.ranges == replica.ranges
        assert walk.history.complete_from <= replica.start or replica.ranges == ()

    @given(replicas(), st.integers(1, 6))
    def test_what_it_knows_halfway_is_true(
        self, case: tuple[ModelReplica, int], depth: int
    ) -> None:
        """A walk may stop at any depth: what it tells is true, and says from where on."""
        replica, current = case
        assume(replica.ranges)
        walk = EpochWalk(replica.end, current, replica.newest_epoch)
        while walk.question is not None and len(walk.history.ranges) < depth:
            walk.answer(*replica.answer(walk.question))
        told = walk.history
        newer = [range_ for range_ in replica.ranges if range_.start >= told.complete_from]
        assert list(told.ranges) == newer
        assert told.last_written == (newer[-1].epoch if newer else None)


def test_a_log_that_changes_meanwhile_never_ends_up_known_and_wrong() -> None:
    """The answers fit no log: the walk says so, instead of telling of no records."""
    walk = EpochWalk(50, 3, None)
    while walk.question is not None:
        walk.answer(EpochEnd(walk.question, 20), 0)
    assert walk.astray
