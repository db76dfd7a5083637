"""Takes a lab down when the process that it was raised for has ended, in whatever way.

``python -m breakglass.services.lab.keeper FOLDER STATE`` reads its stdin, a pipe whose other end
that process alone has: even SIGKILL closes it. Then it cleans up, unless that process did.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from breakglass.services.guard.lock import file_name
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.controller_link import PACKAGES
from breakglass.services.lab.layout import LAYOUT_FILE

LAB = "lab"
END_SECONDS = 300.0
DONE = b"done"


@contextmanager
def kept(folder: Path, state: Path, *, keep: bool = False) -> Iterator[Path]:
    """Yield the folder for a lab within *folder*; at the end all of it is cleaned up.

    With *keep* data and logs stay, and what is in the state folder, if this process lives to its
    end. Ctrl-C in the terminal does not reach the other process that sees to it.
    """
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "breakglass.services.lab.keeper", str(folder), str(state)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=PACKAGES,
        start_new_session=True,
    )
    try:
        yield folder / LAB
        clean_up(folder, state, keep=keep)
        process.communicate(DONE, END_SECONDS)
    except BaseException:
        # A second Ctrl-C leaves the rest to the other process.
        clean_up(folder, state)
        process.communicate(DONE, END_SECONDS)
        raise


def clean_up(folder: Path, state: Path, *, keep: bool = False) -> None:
    """End the nodes of the lab, then remove *folder* and what *state* has of its cluster.

    Raises:
        LabError: a process survives SIGKILL.
    """
    if (folder / LAB / LAYOUT_FILE).exists():
        cluster = Cluster.load(folder / LAB)
        cluster.down(keep=True)
        if not keep:
            # Remove journals, rescues, locks and observations of a cluster that is no more.
            for path in state.glob(f"*/{file_name(cluster.layout.cluster_id)}*"):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)


def main(arguments: Sequence[str]) -> None:
    """Wait for the end of the other process, then clean up what it left."""
    if sys.stdin.buffer.read() != DONE:
        folder, state = map(Path, arguments)
        clean_up(folder, state)


if __name__ == "__main__":
    main(sys.argv[1:])
