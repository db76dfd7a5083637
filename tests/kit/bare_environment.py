"""An environment with what `pip install breakglass` installs, and none of its extras.

It is made without a network: what the core depends on is taken from the environment of the tests.
"""

import subprocess
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


class BareEnvironment:
    """Has an interpreter of its own, under *folder*."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self._python = folder / "bin" / "python"
        (packages,) = folder.glob("lib/python3*/site-packages")
        (packages / "breakglass").symlink_to(ROOT / "breakglass")
        for one in _core():
            for top in {file.parts[0] for file in one.files or () if file.parts[0] != ".."}:
                if not (packages / top).exists():
                    (packages / top).symlink_to(Path(str(one.locate_file(top))))

    def python(
        self, script: str, *arguments: str, folder: Path
    ) -> subprocess.CompletedProcess[str]:
        """Run *script* in *folder*, which is the user's own, too."""
        return subprocess.run(
            [self._python, "-c", script, *arguments],
            capture_output=True,
            text=True,
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(folder)},
        )


def _core() -> Iterator[Distribution]:
    """What the core depends on, and so on."""
    seen: set[str] = set()
    wanted = [Requirement("breakglass")]
    while wanted:
        one = wanted.pop()
        key = (canonicalize_name(one.name), *sorted(one.extras))
        if str(key) in seen:
            continue
        seen.add(str(key))
        found = distribution(one.name)
        if one.name != "breakglass":
            yield found
        for text in found.requires or ():
            needed = Requirement(text)
            extras = one.extras or {""}
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in extras
            ):
                wanted.append(needed)
