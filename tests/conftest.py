"""What every test stands on: markers by folder, user folders of its own, patient properties."""

import faulthandler
import gc
import itertools
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

from breakglass.console.exits import collect_cycles_seldom
from tests.kit.extent import examples
from tests.kit.processes import name_dropped_processes

TESTS = Path(__file__).parent
BROKER_SECONDS = 1200
"""What ends a test of brokers or of Spark that hangs; the first may have to fetch their jars."""
LEAVING_SECONDS = 600
"""How long a worker may take to end after its last test, before it shows what it waits for."""
SHORT_LIVED = "-XX:TieredStopAtLevel=1"
"""Of a JVM that ends before it would run any quicker for having been compiled well."""

_NUMBERS = itertools.count()

# The machine that runs the tests may be busy with brokers: an example's wall time says nothing.
settings.register_profile("breakglass", deadline=None, print_blob=True, max_examples=examples(100))
settings.load_profile("breakglass")


def pytest_configure() -> None:
    """Let Spark's launcher compile as little as brokers do; name each process that is dropped.

    What is collected holds no cycles: nobody looks for them meanwhile.
    """
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", SHORT_LIVED)
    name_dropped_processes()
    gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test under tests/lab as one that needs brokers; those without ``main`` are slow.

    Tests of one folder share brokers, and damage them step by step: they stay in one worker, but
    for those that name another group. The plugin that gives tests to workers has to see the marks,
    so it comes later.
    """
    for item in items:
        if item.path.is_relative_to(TESTS / "lab"):
            item.add_marker(pytest.mark.lab)
            if not item.get_closest_marker("xdist_group"):
                item.add_marker(pytest.mark.xdist_group(_folder(item)))
            if not item.get_closest_marker("main"):
                item.add_marker(pytest.mark.slow)
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(BROKER_SECONDS))
    _put_longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Give workers whole files, but for groups: who gives single tests counts all at each.

    What a file's fixtures make is made once, too.
    """
    from xdist.scheduler import LoadGroupScheduling

    if config.getvalue("dist") != "loadgroup":
        return None
    scheduler = LoadGroupScheduling(config, log)
    group_or_test = scheduler._split_scope
    scheduler._split_scope = lambda test: group_or_test(test).partition("::")[0]
    return scheduler


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """End a worker that a library's thread keeps from ending, and show the thread."""
    faulthandler.dump_traceback_later(LEAVING_SECONDS, exit=True, file=2)


def pytest_collection_finish() -> None:
    """Collect cycles as seldom as the product: thousands of collected tests hold none."""
    gc.enable()
    collect_cycles_seldom()


def _put_longest_first(items: list[pytest.Item]) -> None:
    """Let the workers begin with what keeps one of them busy longest.

    The plugin's own order, by the number of tests, would begin with brokers' when all else is done.
    Groups of several folders come first, for they start Spark. What takes milliseconds comes last:
    no worker waits long for the others to end.
    """
    sizes = Counter(map(_sharing, items))

    def rank(item: pytest.Item) -> tuple[int, int, str]:
        if not item.get_closest_marker("lab"):
            return (3 if item.path.is_relative_to(TESTS / "unit") else 2, 0, "")
        sharing = _sharing(item)
        return (int(sharing == _folder(item)), -sizes[sharing], sharing)

    items.sort(key=rank)


def _sharing(item: pytest.Item) -> str:
    """What the tests are called together that *item* shares brokers with."""
    group = item.get_closest_marker("xdist_group")
    return str(group.args[0]) if group else _folder(item)


def _folder(item: pytest.Item) -> str:
    return item.path.parent.relative_to(TESTS).as_posix()


@pytest.fixture(autouse=True)
def user_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Settings and state of this test alone; the cache is shared, for Kafka's jars are in it."""
    folder = tmp_path_factory.getbasetemp() / f"test-{next(_NUMBERS)}" / "user"
    os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    return folder


@pytest.fixture
def tmp_path(user_folders: Path) -> Path:
    """A folder by a number; pytest looks for its own among the folders of all tests before."""
    user_folders.parent.mkdir(mode=0o700, exist_ok=True)
    return user_folders.parent
