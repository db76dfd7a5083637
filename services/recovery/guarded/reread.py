"""The look between consent and execution: the chosen partitions read again, and what changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from breakglass.services.errors import EvidenceChanged
from breakglass.services.kafka.cluster.describe_cluster import require_same_cluster
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.native_rpc import AUTO, STOCK, NativeRpc
from breakglass.services.model import PartitionEvidence, TopicPartition, TopicSettings, Unknown
from breakglass.services.recovery.evidence.contents import as_known
from breakglass.services.recovery.guarded.election_quote import Priced, frozen
from breakglass.services.recovery.judgement.replica_choice import refusal
from breakglass.services.recovery.plan.check import Checked, CheckStatus, check_evidence
from breakglass.services.recovery.selection import Selection, select
from breakglass.services.recovery.triage import Triage, judge

_LED = Unknown("not read, for the partition has a leader")
_UNREAD = TopicSettings(_LED, _LED, _LED, _LED)


@dataclass(frozen=True, slots=True)
class Reread:
    """What was agreed to, beside what the brokers say now."""

    checked: tuple[Checked, ...]
    """One for each election, in their order."""
    wanted: tuple[Priced, ...]
    """What can be elected on the evidence of now, at the price of now.

    Partitions that are led by now stay, at the price that was agreed to: the run finds them
    online, and nothing of them is to be rescued.
    """
    native: NativeRpc

    @property
    def changed(self) -> tuple[Checked, ...]:
        """Elections that rest on something which is no longer so."""
        return tuple(one for one in self.checked if not one.status.fine)

    def require_unchanged(self) -> None:
        """Return if everything that was agreed to still holds.

        Raises:
            EvidenceChanged: it does not; says what changed first, and how many did.
        """
        changed = self.changed
        if changed:
            more = f" (and {len(changed) - 1:,} more changed)" if len(changed) > 1 else ""
            raise EvidenceChanged(
                f"{changed[0].partition}: {changed[0].reason}{more}: nothing was sent; look at "
                "what it would cost now, then consent to that"
            )


def reread(
    client: ReadClient,
    cluster_id: str,
    wanted: Sequence[Priced],
    duration: float,
    native_choice: str = AUTO,
    *,
    told: Callable[[Triage], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Reread:
    """Read the partitions of *wanted* again and hold each election against what it was agreed on.

    Brokers have *duration* seconds to answer; *told* hears of who is waited for.

    Raises:
        WrongCluster: the addresses lead to another cluster than *cluster_id* by now.
        Unreachable: no broker serves the cluster's metadata.
        NotAuthorized: a topic may not be described any more.
    """
    selection = select(client, [one.partition for one in wanted])
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
        ):
            told(found)
    now = _evidence(wanted, selection, found)
    checked = tuple(
        check_evidence(one.evidence, one.target.designee, now.get(one.partition)) for one in wanted
    )
    native = STOCK if found is None else found.native
    return Reread(checked, tuple(_as_of_now(wanted, checked, now)), native)


def _evidence(
    wanted: Sequence[Priced], selection: Selection, found: Triage | None
) -> Mapping[TopicPartition, PartitionEvidence]:
    """What is known now of each partition that exists.

    The contents of a log are not read again: where its end and epoch are as *before*, so are they.
    """
    read = () if found is None else found.evidence.partitions
    then = {one.partition: one.evidence for one in wanted}
    now = {one.partition: as_known(then.get(one.partition), one) for one in read}
    for state in selection.online:
        now[state.partition] = PartitionEvidence(state, (), _UNREAD)
    return now


def _as_of_now(
    wanted: Sequence[Priced],
    checked: Sequence[Checked],
    now: Mapping[TopicPartition, PartitionEvidence],
) -> Iterator[Priced]:
    for before, one in zip(wanted, checked, strict=True):
        if one.status is CheckStatus.ONLINE:
            yield replace(before, evidence=now[one.partition])
        elif one.status is not CheckStatus.GONE:
            evidence = now[one.partition]
            if not refusal(evidence, one.leader):
                yield frozen(evidence, one.leader, before.gone)
