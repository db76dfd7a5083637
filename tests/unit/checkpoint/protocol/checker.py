"""What has to hold of any run of the simulation: I1 to I9. Broken ones are named, not raised."""

from collections.abc import Iterator

from breakglass.services.checkpoint.protocol.values import Intent, Status, partition_status
from tests.unit.checkpoint.protocol.simulation import (
    Kind,
    Material,
    Partition,
    Record,
    State,
    World,
    settled,
    sorted_money,
    up_to,
)


def broken(world: World) -> list[str]:
    """What must hold at the end, once everything has settled."""
    return [
        *_markers(world),
        *(text for id in world.ids for text in _of_checkpoint(world, id)),
        *_copies(world),
        *_money_now(world),
    ]


def positions(world: World, id: int) -> list[int | None]:
    """The checkpoint's position in each partition; None where it was never created."""
    return [_position(partition, id) for partition in world.partitions]


def _position(partition: Partition, id: int) -> int | None:
    found = (
        record.follow_up.position
        for record in partition.log
        if record.follow_up is not None
        and record.follow_up.intent is Intent.CREATED
        and record.follow_up.id == id
    )
    return next(found, None)


def _markers(world: World) -> Iterator[str]:
    for partition in world.partitions:
        events = [record.follow_up for record in partition.log if record.follow_up is not None]
        created = [event.id for event in events if event.intent is Intent.CREATED]
        if created != sorted(set(created)):
            yield f"I3: partition {partition.number} created {created}"


def _of_checkpoint(world: World, id: int) -> Iterator[str]:
    cut = positions(world, id)
    yield from orphans(world, id)
    for partition, position in zip(world.partitions, cut, strict=True):
        if position is not None and any(
            record.checkpoint >= id for record in partition.log[: position - 1]
        ):
            yield f"I2: partition {partition.number}, checkpoint {id}: a later id before it"
    ends = world.acknowledged.get(id)
    for number, position in enumerate(cut):
        if ends is not None and position is not None and position > ends[number]:
            yield f"I7: partition {number}, checkpoint {id}: started after it was acknowledged"
    statuses = [
        partition_status(world.backup(id, partition.number)) for partition in world.partitions
    ]
    whole = [_whole(world, id, partition.number) for partition in world.partitions]
    if (world.status(id) is Status.COMPLETED) != all(whole):
        yield f"I6: checkpoint {id} is {world.status(id)}, its partitions are whole: {whole}"
    if Status.ONGOING in statuses:
        yield f"I9: checkpoint {id} stays ongoing"
    if ends is not None and Status.DOES_NOT_EXIST in statuses:
        yield f"I9: checkpoint {id} was acknowledged and has partitions without a backup"
    if world.status(id) is Status.COMPLETED:
        yield from _restored(world, id)


def orphans(world: World, id: int) -> list[str]:
    """I1: what is in the checkpoint's cut although what caused it is not."""
    cut = positions(world, id)
    found = []
    for partition, position in zip(world.partitions, cut, strict=True):
        for record in partition.log[: position or 0]:
            cause = _cause(world, cut, record)
            if cause is not None:
                found.append(f"I1: partition {partition.number}, checkpoint {id}: {cause}")
    return found


def _cause(world: World, cut: list[int | None], record: Record) -> str | None:
    if record.kind is Kind.RECEIVE:
        end = cut[record.transfer[0]]
        if end is not None and record.transfer[1] > end:
            return f"{record.transfer} is received, not sent"
    if record.kind is Kind.CONFIRM:
        end = cut[record.peer]
        received = world.partitions[record.peer].log[: end or 0]
        if end is not None and not any(
            one.kind is Kind.RECEIVE and one.transfer == record.transfer for one in received
        ):
            return f"{record.transfer} is confirmed, not received"
    return None


def _whole(world: World, id: int, number: int) -> bool:
    """Whether a partition can be restored, by what is stored of it alone."""
    held = [
        _reached(number, material, copy.position).money
        for key, (copy, material) in world.copies.items()
        if (key.checkpoint, key.partition) == (id, number)
        and copy.status is Status.COMPLETED
        and material is not None
        and copy.position is not None
    ]
    return len(set(held)) == 1 and (id, number) not in world.verdicts


def _copies(world: World) -> Iterator[str]:
    for id, (copy, material) in world.copies.items():
        if (copy.status is Status.COMPLETED) != (material is not None):
            content = "no content" if material is None else "a whole one"
            yield f"I5: {id} is {copy.status} and has {content}"
        if copy.status is not Status.COMPLETED or material is None or copy.position is None:
            continue
        partition = world.partitions[id.partition]
        end = material[-1] if material else None
        if end is None or end.position != copy.position or end.kind is not Kind.CREATE:
            yield f"I4: {id} does not end with the checkpoint's command"
        truth = up_to(State(), id.partition, partition.log, copy.position)
        reached = _reached(id.partition, material, copy.position)
        if copy.digest != repr(sorted_money(reached)):
            yield f"I5: {id} says of its content what it is not"
        if reached.money != truth.money:
            yield f"I4: {id} leads to another state than the log up to the checkpoint"


def _reached(number: int, material: Material, position: int) -> State:
    return up_to(State(), number, material, position)


def _restored(world: World, id: int) -> Iterator[str]:
    """I8: nothing in transit is lost, nothing is doubled."""
    states = []
    for partition in world.partitions:
        backup = world.backup(id, partition.number)
        completed = next(copy for copy in backup.copies if copy.status is Status.COMPLETED)
        material = world.copies[completed.id][1]
        if material is None or completed.position is None:
            return
        states.append(_reached(partition.number, material, completed.position))
    total = sum(state.balance for state in settled(states))
    if total != 0:
        yield f"I8: restoring checkpoint {id} makes {total:+} of 0"


def _money_now(world: World) -> Iterator[str]:
    total = sum(partition.state.balance for partition in world.partitions)
    if total != 0:
        yield f"the bank itself, without any restore, has {total:+} of 0"
