"""Fuzz the targets, guided by what code their inputs reach: ``make fuzz``.

Every target gets the same share of the time, in a process of its own with bounded memory. The
fewest inputs that reach all the code that was reached stay in its folder of the corpus, and
`tests/fuzz/test_targets.py` runs them again. So does an input that failed.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.targets import LARGEST, TARGETS

CORPUS = Path(__file__).parent / "corpus"
MEMORY_MB = 1024
ONE_INPUT_SECONDS = 10


def main() -> int:
    """Fuzz what the command line names; 1 if an input failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=3600, help="of all targets together")
    parser.add_argument("--only", choices=TARGETS, help="fuzz one target")
    asked = parser.parse_args()
    if asked.only:
        return _fuzz(asked.only, asked.seconds)
    share = asked.seconds // len(TARGETS)
    command = (sys.executable, "-m", "tests.fuzz.explore", "--seconds", str(share), "--only")
    failed = [name for name in TARGETS if subprocess.run((*command, name), check=False).returncode]
    print(f"failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


def _fuzz(name: str, seconds: int) -> int:
    """Find inputs of target *name* for *seconds*, then keep the fewest that reach as much."""
    kept = CORPUS / name
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as found, tempfile.TemporaryDirectory() as fewest:
        options = (
            f"-max_total_time={seconds}",
            f"-artifact_prefix={kept}/",
            "-print_final_stats=1",
        )
        status = _libfuzzer(name, found, str(kept), *options)
        if status == 0:
            status = _libfuzzer(name, fewest, str(kept), found, "-merge=1")
        if status == 0:
            _replace(kept, Path(fewest))
    return status


def _replace(kept: Path, fewest: Path) -> None:
    for path in kept.iterdir():
        path.unlink()
    for path in fewest.iterdir():
        shutil.copy(path, kept)


def _libfuzzer(name: str, *arguments: str) -> int:
    """Run libFuzzer, which never returns, in a process of its own."""
    limits = (
        f"-max_len={LARGEST}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-timeout={ONE_INPUT_SECONDS}",
        "-verbosity=0",
    )
    command = (sys.executable, "-m", "tests.fuzz.instrumented", name, *limits, *arguments)
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
