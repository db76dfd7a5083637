"""What Breakglass said of each partition, as the judge needs it: read from JSON, nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from breakglass.bookkeeping.folders import Name


@dataclass(frozen=True, slots=True)
class SaidPrice:
    """What a triage says that electing one broker loses; None for what it says is unknown."""

    total: int | None
    committed: int | None
    unproven: int | None
    approximate: bool


@dataclass(frozen=True, slots=True)
class SaidPartition:
    """One partition of a triage."""

    name: Name
    verdict: str
    action: str
    """``start b3``, ``stop b4 NOW``, ``elect b2``."""
    designee: int | None
    unread_at_least: int | None
    prices: Mapping[int, SaidPrice]
    """By broker, of those whose log could be read."""
    log_ends: Mapping[int, int]
    """The same: what it says their log ends are."""
    leader_epoch: int
    automatable: bool = True
    """Whether it is elected without an operator's decision."""

    @property
    def verb(self) -> str:
        """The action without its broker."""
        return " ".join(word for word in self.action.split() if not _names_broker(word))

    @property
    def broker(self) -> int | None:
        """The broker of the action."""
        return next((int(w[1:]) for w in self.action.split() if _names_broker(w)), None)


def judged(triage: Mapping[str, Any]) -> list[SaidPartition]:
    """The partitions of `triage --json`."""
    return [_judged(partition) for partition in triage.get("partitions", ())]


def _judged(partition: Mapping[str, Any]) -> SaidPartition:
    read = {
        replica["broker"]: replica
        for replica in partition["replicas"]
        if isinstance(replica["log_end"], int)
    }
    return SaidPartition(
        (partition["topic"], partition["partition"]),
        partition["verdict"],
        partition["action"],
        partition["designated_leader"],
        _known(partition["unread_at_least"]),
        {broker: _price(replica["loses_if_chosen"]) for broker, replica in read.items()},
        {broker: replica["log_end"] for broker, replica in read.items()},
        partition["leader_epoch"],
        partition["automatable"],
    )


def _price(loses: Mapping[str, Any]) -> SaidPrice:
    return SaidPrice(
        _known(loses["records"]),
        _known(loses["committed"]),
        _known(loses["unproven"]),
        loses["approximate"],
    )


def _known(figure: object) -> int | None:
    return figure if isinstance(figure, int) else None


def _names_broker(word: str) -> bool:
    return word[:1] == "b" and word[1:].isdecimal()


def elected(document: Mapping[str, Any]) -> Iterator[Name]:
    """The partitions that `recover --json` says it has elected."""
    for partition in document.get("partitions", ()):
        if partition["result"] == "elected":
            yield partition["topic"], partition["partition"]
