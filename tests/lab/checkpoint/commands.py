"""`breakglass checkpoint`, as an operator runs it."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit.program import Ended, breakglass
from tests.kit.running import Running, ran, running


@dataclass(frozen=True, slots=True)
class Program:
    """The commands on one cluster and one store; each in a process of its own but for `here`."""

    bootstrap: str
    store: Path
    state: Path
    url: str = ""
    """Where the store is, if that is no folder."""

    @property
    def own_state(self) -> Path:
        """The state folder of Breakglass itself."""
        return self.state / "breakglass"

    def _words(self, command: str, *arguments: str, cluster: bool = True) -> list[str]:
        given = ["checkpoint", command, "--store", self.url or str(self.store), *arguments]
        return [*given, "--bootstrap-server", self.bootstrap] if cluster else given

    def __call__(self, command: str, *arguments: str, cluster: bool = True) -> Ended:
        """Run it to its end."""
        own = {"XDG_STATE_HOME": str(self.state)}
        return ran(*self._words(command, *arguments, cluster=cluster), environment=own)

    def here(self, command: str, *arguments: str, cluster: bool = True) -> Ended:
        """Run a command in this process, which takes less time."""
        return breakglass(*self._words(command, *arguments, cluster=cluster))

    def running(
        self, command: str, *arguments: str, token: str = ""
    ) -> AbstractContextManager[Running]:
        """Start it; it is killed with the block, if not before."""
        own = {"BREAKGLASS_CHECKPOINT_TOKEN": token} if token else {}
        return running(self.state, *self._words(command, *arguments), environment=own)

    def consented(self, command: str, *arguments: str, cluster: bool = True) -> dict[str, Any]:
        """Run it with --write and the consent that it asks for; it must succeed."""
        asked = self.here(command, *arguments, "--write", cluster=cluster)
        assert asked.code == 3, asked.err
        phrase = asked.consent
        return self.whole(command, *arguments, "--write", "--consent", phrase, cluster=cluster)

    def whole(self, command: str, *arguments: str, cluster: bool = True) -> dict[str, Any]:
        """Run it with --json; it must succeed."""
        done = self.here(command, *arguments, "--json", cluster=cluster)
        assert done.code == 0, f"{done.err}\n{done.out}"
        found: dict[str, Any] = done.document
        return found
