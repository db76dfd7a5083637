"""One target under libFuzzer, with the code of the readers instrumented: explore.py runs it."""

import sys

import atheris


def main() -> None:
    """Run the target that the first argument names; libFuzzer reads the others."""
    name = sys.argv.pop(1)
    with atheris.instrument_imports(include=["breakglass.services.topic_backup"]):
        from tests.fuzz.targets import TARGETS

    # When it merges, libFuzzer starts itself again, by a shell.
    again = f"{sys.executable} -m tests.fuzz.instrumented {name}"
    atheris.Setup([again, *sys.argv[1:]], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
