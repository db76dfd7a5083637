"""Tasks that begin to run when they are made, as Textual has them from Python 3.12 on.

`run_async` sets asyncio's eager task factory, and `run_test` does not: without this, tests would
see another order of events than operators do. Python 3.11 has no such factory; what is here in its
place shows on it, too, what mounts before there is a screen.
"""

import asyncio
from collections.abc import Coroutine, Generator
from contextvars import Context, copy_context
from types import coroutine
from typing import Any


def begin_at_once(loop: asyncio.AbstractEventLoop) -> None:
    """Let every task of *loop* run up to what it first waits for when it is made."""
    loop.set_task_factory(getattr(asyncio, "eager_task_factory", _begun))


def _begun(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    *,
    context: Context | None = None,
    **_: Any,
) -> asyncio.Future[Any]:
    """Stand in for `asyncio.eager_task_factory`: a task of what is left after the first step."""
    context = context or copy_context()
    try:
        awaited = context.run(work.send, None)
    except StopIteration as end:
        return asyncio.Task(_ended(end.value), loop=loop, context=context)
    except BaseException as error:  # noqa: BLE001 - an error of the task's, for who awaits it
        return asyncio.Task(_ended(None, error), loop=loop, context=context)
    return asyncio.Task(_rest(work, awaited), loop=loop, context=context)


async def _ended(value: Any, error: BaseException | None = None) -> Any:
    if error is not None:
        raise error
    return value


@coroutine
def _rest(
    work: Coroutine[Any, Any, Any] | Generator[Any, None, Any], awaited: Any
) -> Generator[Any, Any, Any]:
    """Go through *work*, which waits for *awaited*, as a task does."""
    while True:
        try:
            sent = yield awaited
        except BaseException as error:  # noqa: BLE001 - what is thrown into a task is its work's
            step: Any = work.throw
            given: Any = error
        else:
            step, given = work.send, sent
        try:
            awaited = step(given)
        except StopIteration as end:
            return end.value
