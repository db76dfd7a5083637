"""What is looked at: one source by itself, or two side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

from breakglass.screens.context import Context
from breakglass.screens.diff.paged import Compare
from breakglass.services import patience
from breakglass.services.divergence.address import SourceAddress, SourceKind
from breakglass.services.divergence.align import Alone, Comparison
from breakglass.services.divergence.opening import Opener, compare
from breakglass.services.guard.lock import file_name
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.state_folder import state_folder


@dataclass(frozen=True, slots=True)
class BrowseSubject:
    """One or two addresses of the same partition."""

    left: SourceAddress
    right: SourceAddress | None = None
    generation: int = 0
    """Counts how often the operator asked to read everything again."""

    @property
    def single(self) -> bool:
        return self.right is None

    @property
    def titles(self) -> tuple[str, str]:
        return str(self.left), str(self.right or "")

    @property
    def briefs(self) -> tuple[str, str]:
        """The shortest words that tell the two apart: ``backup``, ``b2``; else ``A`` and ``B``."""
        right = self.right or self.left
        one, other = _brief(self.left), _brief(right)
        return (one, other) if one != other else ("A", "B")


def _brief(address: SourceAddress) -> str:
    return f"b{address.place}" if address.kind is SourceKind.REPLICA else str(address.kind)


@contextmanager
def connect_to(context: Context) -> Iterator[Compare[BrowseSubject]]:
    """Open what a screen looks at, once; brokers are only reached for where a source needs them."""
    with ExitStack() as stack:
        clients: list[ReadClient] = []
        opened: list[tuple[BrowseSubject, Comparison]] = []
        lock = Lock()

        def client() -> ReadClient:
            if not clients:
                made = stack.enter_context(context.reading())
                deadline = Deadline.after(patience.REQUEST)
                until(deadline, lambda: made.describe(deadline))
                clients.append(made)
            return clients[0]

        def open_one(subject: BrowseSubject) -> Comparison:
            with lock:
                if not opened or opened[0][0] != subject:
                    left, right = subject.left, subject.right
                    opener = Opener(client, context.key)
                    if right is None:
                        found: Comparison = Alone(opener.open(left))
                    else:
                        opener = replace(opener, state=restored_map(context, left, right))
                        found = compare(opener, left, right)
                    opened[:] = [(subject, found)]
                return opened[0][1]

        yield open_one


def restored_map(context: Context, left: SourceAddress, right: SourceAddress) -> Path | None:
    """Where this account keeps which offsets a restore gave the records of a backup.

    None: neither of the two is known to have been restored from the other, under another name.
    """
    live = right if left.kind is SourceKind.BACKUP else left
    incident = context.known.incident
    kinds = {left.kind, right.kind}
    restorable = kinds & {SourceKind.TOPIC, SourceKind.REPLICA, SourceKind.LOG}
    if incident is None or SourceKind.BACKUP not in kinds or not restorable:
        return None
    if left.partition != right.partition or left.topic_partition == right.topic_partition:
        return None
    folder = (context.state_folder or state_folder()) / "restores"
    folder /= file_name(incident.snapshot.cluster_id)
    return (
        folder if (folder / live.folder / f"partition-{live.partition}.jsonl").is_file() else None
    )
