"""Processes of Spark found by the files they write, and killed."""

import contextlib
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil


@contextmanager
def killed_once(find: Callable[[], list[psutil.Process]]) -> Iterator[list[int]]:
    """Kill the first processes that *find* finds while the block runs; yields their ids."""
    killed: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.005) and not killed:
            for process in find():
                process.kill()
                killed.append(process.pid)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def writers_in(folder: Path) -> list[psutil.Process]:
    """Processes below this one that have written records to a file in *folder*."""
    names = [path for path in folder.glob(".breakglass-*-records.tmp") if path.stat().st_size > 1]
    found = []
    for process in psutil.Process().children(recursive=True) if names else []:
        with contextlib.suppress(psutil.Error):
            opened = {Path(file.path) for file in process.open_files()}
            found += [process] if opened.intersection(names) else []
    return found


def python_workers() -> list[psutil.Process]:
    """Spark's Python workers below this process."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            parent = process.parent()
            if parent is not None and "breakglass.services.pipeline.daemon" in " ".join(
                parent.cmdline()
            ):
                found.append(process)
    return found


def jvms(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The JVM of a driver, if there is one by now."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [child for child in psutil.Process(process.pid).children() if child.name() == "java"]
    return []
