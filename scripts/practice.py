"""Do it yourself: six exercises, from bytes to Adam, each a few short functions to fill in.

start DIR writes the files, check DIR runs cases against your functions and says which one fails and what it should
give, hint N helps with exercise N.
"""
from __future__ import annotations

import argparse
import contextlib
import copy
import importlib.util
import inspect
import multiprocessing
import signal
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # this checkout, installed or not

import commands  # noqa: E402
import numpy as np  # noqa: E402
from exercises.checks import EXERCISES, Case, Exercise  # noqa: E402
from fetching import write  # noqa: E402

TEMPLATES = ROOT / "scripts" / "exercises" / "templates"
EXAMPLES = """\
examples:
  python scripts/practice.py start my-exercises     then open my-exercises/ex1_bytes.py
  python scripts/practice.py check my-exercises     all six
  python scripts/practice.py check my-exercises 3   the third
  python scripts/practice.py hint 3

Exit status: 0 all is right (or written, or printed), 1 a case fails, 2 wrong usage, 130 Ctrl-C.
"""


class Wrong(Exception):
    """A case that fails; the message is for the learner."""


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    try:
        if options.command == "start":
            return start(options.folder)
        if options.command == "check":
            numbers = [options.number] if options.number else list(range(1, len(EXERCISES) + 1))
            return check(options.folder, numbers, options.seconds)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"practice.py: {error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        return 1
    print(EXERCISES[options.number - 1].hint)
    return 0


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("practice.py", description=__doc__, epilog=EXAMPLES, formatter_class=layout)
    kinds = parser.add_subparsers(dest="command", required=True)
    numbers: dict[str, Any] = {"type": int, "choices": range(1, len(EXERCISES) + 1), "metavar": "N"}
    command = kinds.add_parser("start", help="write the exercises into a folder; what is there is left alone")
    command.add_argument("folder", type=commands.folder, metavar="DIR")
    command = kinds.add_parser("check", help="run the cases of all exercises, or of one")
    command.add_argument("folder", type=commands.folder, metavar="DIR")
    command.add_argument("number", nargs="?", help=f"1 to {len(EXERCISES)}", **numbers)
    command.add_argument("--seconds", type=positive, default=10.0, help="an exercise may run so long (default: 10)")
    command = kinds.add_parser("hint", help="help with an exercise")
    command.add_argument("number", help=f"1 to {len(EXERCISES)}", **numbers)
    return parser.parse_args(arguments)


def positive(text: str) -> float:
    number = float(text)
    if not 0 < number <= 86400:  # a day
        raise ValueError(text)
    return number


def start(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    for exercise in EXERCISES:
        path = folder / exercise.file
        if path.exists():
            print(f"{path}: is there, left as it is")
            continue
        write(path, (TEMPLATES / exercise.file).read_bytes())
        print(f"{path}: written")
    print(f"fill in the functions, then: python scripts/practice.py check {folder}")
    return 0


def check(folder: Path, numbers: list[int], seconds: float) -> int:
    failed = []
    for number, (is_right, said) in zip(numbers, answers(folder, numbers, seconds)):
        print(f"{number}  {EXERCISES[number - 1].file}: {said}", flush=True)
        if not is_right:
            failed.append(number)
    if failed:
        right = f"{len(numbers) - len(failed)} of {len(numbers)} right"
        print(f"{right}; python scripts/practice.py hint {failed[0]} helps")
    return int(bool(failed))


def answers(folder: Path, numbers: list[int], seconds: float) -> Iterator[tuple[bool, str]]:
    """The `answer` to each exercise, found in another process: a learner's loop may be endless, or end Python."""
    waiting = list(numbers)
    while waiting:
        process, connection = begin(folder, waiting)
        with connection:
            try:
                connection.recv()  # it has begun: what it takes to import NumPy is not the learner's time
                while waiting and connection.poll(seconds):
                    yield connection.recv()
                    del waiting[0]
                if waiting:
                    yield False, f"still running after {seconds:g} seconds: an endless loop?"
            except (EOFError, BrokenPipeError):  # the second from Windows' poll
                process.join()
                yield False, f"Python ended while it ran, with exit status {process.exitcode}"
            finally:
                process.kill()
        del waiting[:1]


def begin(folder: Path, numbers: list[int]) -> tuple[Any, Any]:
    """A process that answers these exercises one after another, and the connection on which it says so."""
    spawn = multiprocessing.get_context("spawn")  # the same on every system
    receiver, sender = spawn.Pipe(duplex=False)
    process = spawn.Process(target=answer_all, args=(folder, numbers, sender), daemon=True)
    process.start()
    sender.close()
    return process, receiver


def answer_all(folder: Path, numbers: list[int], sender: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that began this one
    sys.path.append(str(folder))  # one exercise may use another
    sender.send(None)
    for number in numbers:
        found = answer(folder, EXERCISES[number - 1])
        with contextlib.suppress(Exception):  # it may be a learner's own, or closed
            sys.stdout.flush()  # what the learner prints; this process is ended once the last answer is in
        sender.send(found)


def answer(folder: Path, exercise: Exercise) -> tuple[bool, str]:
    """Whether an exercise is right, and what to say of it."""
    try:
        return True, f"right, {run(folder / exercise.file, exercise)} cases"
    except Wrong as wrong:
        return False, str(wrong)


def run(path: Path, exercise: Exercise) -> int:
    """Run the cases of one exercise and return how many there were; Wrong at the first that fails."""
    if not path.exists():
        raise Wrong(f"there is no such file; python scripts/practice.py start {path.parent} writes it")
    module = load(path)
    cases = list(exercise.cases())
    for number, case in enumerate(cases, 1):
        reason = failure(module, path, case)
        if reason:
            raise Wrong(
                f"case {number} of {len(cases)} fails: {case.about}\n"
                f"   call      {call_text(case)}\n   expected  {expected_text(case.expected)}\n   but       {reason}"
            )
    return len(cases)


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)  # there, for a dataclass looks itself up
    try:
        spec.loader.exec_module(module)
    except BaseException as error:  # of a learner's file all may be expected, here and below
        raise Wrong(f"it cannot be imported: {error_text(error, path)}") from None
    return module


def failure(module: ModuleType, path: Path, case: Case) -> str | None:
    """What is wrong with the learner's answer; None if it is right."""
    function = getattr(module, case.function, None)
    if not callable(function):
        return f"there is no function {case.function} in the file"
    raises = inspect.isclass(case.expected)
    arguments = copy.deepcopy(case.arguments)
    try:
        got = function(*arguments)
    except BaseException as error:
        return None if raises and isinstance(error, case.expected) else f"raised {error_text(error, path)}"
    if raises:
        return f"returned {text(got)}"
    if got is None:
        return "nothing was returned (None)"
    if compared(arguments, case.arguments):
        return "the function changed the arguments it was given"
    return compared(got, case.expected)


def compared(got: Any, expected: Any) -> str | None:
    """As `difference`, of whatever a learner may return, what cannot be compared included."""
    try:
        return difference(got, expected)
    except BaseException:  # arrays have no one truth, and a class of the learner's may raise anything
        return f"got {text(got)}, of type {kind(got)}, where {kind(expected)} is expected"


def difference(got: Any, expected: Any) -> str | None:
    """How `got` differs from `expected`; None if it does not, up to rounding."""
    if isinstance(expected, tuple):
        if not isinstance(got, (tuple, list)) or len(got) != len(expected):
            return f"got {text(got)}, where {len(expected)} results should be"
        parts = [(number, difference(*pair)) for number, pair in enumerate(zip(got, expected))]
        return next((f"result {number}: {reason}" for number, reason in parts if reason), None)
    if isinstance(expected, dict):
        if not isinstance(got, dict):
            return f"got {text(got)}"
        wrong = [key for key in expected if key not in got or got[key] != expected[key]]
        if wrong:
            there, wanted = got.get(wrong[0]), expected[wrong[0]]
            return f"at {wrong[0]!r} there is {beside(there, wanted)}, where {text(wanted)} is expected"
        return None if len(got) == len(expected) else f"there are {len(got)} entries"
    if isinstance(expected, float):
        expected = np.array(expected, np.float32)  # as near as float32 can be
    if isinstance(expected, np.ndarray):
        return array_difference(got, expected)
    return None if type(got) is type(expected) and got == expected else f"got {beside(got, expected)}"


def array_difference(got: Any, expected: np.ndarray) -> str | None:
    try:
        array = np.asarray(got)
    except BaseException:  # __array__ is the learner's
        return f"got {text(got)}"
    if array.dtype.kind not in "biuf":
        return f"got {text(got)}"
    if array.shape != expected.shape:
        return f"the shape is {array.shape}, where {expected.shape} is expected: {text(array)}"
    exact = expected.dtype == np.float64
    if np.allclose(array, expected, rtol=1e-12 if exact else 1e-5, atol=0 if exact else 1e-6):
        return None
    away = f", up to {np.abs(array - expected).max():.1e} away" if text(array) == text(expected) else ""
    return f"got {text(array)}{away}"


def call_text(case: Case) -> str:
    return f"{case.function}({', '.join(text(argument) for argument in case.arguments)})"


def expected_text(expected: Any) -> str:
    if inspect.isclass(expected):
        return f"{expected.__name__} is raised"
    return f"a dict of {len(expected)} entries" if isinstance(expected, dict) else text(expected)


def text(value: Any) -> str:
    """A value in one line, long ones cut."""
    if isinstance(value, np.ndarray):
        value = value.astype(np.float64).round(4).tolist() if value.dtype == np.float32 else value.tolist()
    elif isinstance(value, tuple):
        return f"({', '.join(text(part) for part in value)})"
    try:
        line = repr(value)
    except BaseException as error:  # of the learner's class, or of an integer with thousands of digits
        return f"a value of type {kind(value)} that cannot be printed ({type(error).__name__})"
    return line if len(line) <= 300 else f"{line[:200]} ... {line[-60:]}"


def beside(got: Any, expected: Any) -> str:
    """`got` in one line, with its type if it prints as `expected` does."""
    line, types = text(got), (kind(got), kind(expected))
    if line != text(expected) or types[0] == types[1]:
        return line
    return f"{line} ({types[0]}, not {types[1]})"


def kind(value: Any) -> str:
    """The type of a value, and in a list that of the first in it."""
    name = type(value).__name__
    return f"{name} of {type(value[0]).__name__}" if type(value) in (list, tuple) and value else name


def error_text(error: BaseException, path: Path) -> str:
    """The error and the last line of the learner's own file that it went through."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    if isinstance(error, SyntaxError):
        lines, said = [error.lineno] if error.lineno else [], error.msg  # null bytes stand in no line
    else:
        said = str(error).split("\n")[0]
    return f"{type(error).__name__}: {said}" + (f" (line {lines[-1]})" if lines else "")


if __name__ == "__main__":
    commands.run(main)
