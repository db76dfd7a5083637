"""The look between consent and execution: the chosen partitions read again, and what changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from breakglass.services.kafka.cluster.describe_cluster import require_same_cluster
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.native_rpc import AUTO, STOCK, NativeRpc
from breakglass.services.model import PartitionEvidence, TopicPartition, TopicSettings, Unknown
from breakglass.services.recovery.evidence.contents import as_known
from breakglass.services.recovery.guarded.election_quote import Priced, frozen
from breakglass.services.recovery.judgement.assessment import refusal
from breakglass.services.recovery.plan.check import Checked, CheckStatus, check_evidence
from breakglass.services.recovery.triage import Triage, judge, select

_LED = Unknown("not read, for the partition has a leader")
_UNREAD = TopicSettings(_LED, _LED, _LED, _LED)


@dataclass(frozen=True, slots=True)
class Reread:
    """What was agreed to, compared with what the brokers say now."""

    checked: tuple[Checked, ...]
    """The result for each election, in their order."""
    wanted: tuple[Priced, ...]
    """What can be elected on the evidence of now, at the price of now.

    Partitions that are led by now stay, at the price that was agreed to: the run finds them
    online, and nothing of them is to be rescued.
    """
    native: NativeRpc

    @property
    def changed(self) -> tuple[Checked, ...]:
        """Elections whose evidence has changed."""
        return tuple(checked for checked in self.checked if not checked.status.fine)


def reread(
    client: ReadClient,
    cluster_id: str,
    wanted: Sequence[Priced],
    duration: float,
    native_choice: str = AUTO,
    *,
    report: Callable[[Triage], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Reread:
    """Read the partitions of *wanted* again and compare each election with its evidence.

    Brokers have *duration* seconds to answer; *report* is called with each reading so far.

    Raises:
        WrongCluster: the addresses lead to another cluster than *cluster_id* by now.
        Unreachable: no broker serves the cluster's metadata.
        NotAuthorized: a topic may not be described any more.
    """
    selection = select(client, [quoted.partition for quoted in wanted])
    require_same_cluster(cluster_id, selection.snapshot.cluster_id)
    found: Triage | None = None
    if selection.offline:
        for found in judge(
            client,
            selection.snapshot,
            selection.offline,
            duration,
            native_choice,
            stop=stop,
            contents=None,
            elsewhere=False,
        ):
            report(found)
    # What is known now of each partition that exists. The contents of a log are not read again:
    # where its end and epoch are as *before*, so are they.
    read = () if found is None else found.evidence.partitions
    then = {quoted.partition: quoted.evidence for quoted in wanted}
    now = {
        evidence.partition: as_known(then.get(evidence.partition), evidence) for evidence in read
    }
    for state in selection.online:
        now[state.partition] = PartitionEvidence(state, (), _UNREAD)
    checked = tuple(
        check_evidence(quoted.evidence, quoted.target.designee, now.get(quoted.partition))
        for quoted in wanted
    )
    native = STOCK if found is None else found.native
    return Reread(checked, tuple(_as_of_now(wanted, checked, now)), native)


def _as_of_now(
    wanted: Sequence[Priced],
    checked: Sequence[Checked],
    now: Mapping[TopicPartition, PartitionEvidence],
) -> Iterator[Priced]:
    for before, found in zip(wanted, checked, strict=True):
        if found.status is CheckStatus.ONLINE:
            yield replace(before, evidence=now[found.partition])
        elif found.status is not CheckStatus.GONE:
            evidence = now[found.partition]
            if not refusal(evidence, found.leader):
                yield frozen(evidence, found.leader, before.gone)
