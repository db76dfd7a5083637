"""A clock that a test moves by hand."""


class Clock:
    """Seconds that pass only by `advance` and by what the product sleeps."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds

    sleep = advance
