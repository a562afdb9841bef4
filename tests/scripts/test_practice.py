"""The exercises: empty ones fail, each for its own reason; ours pass; a wrong one learns which case, and what it gives."""
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import practice
import pytest
from exercises import checks

from minigrad import Parameter, Tensor, optim

SOLUTIONS = Path(__file__).parent / "solutions"
FILES = [exercise.file for exercise in checks.EXERCISES]


@pytest.fixture
def folder(tmp_path, capsys):
    """A folder with our own solutions in it."""
    return Path(shutil.copytree(SOLUTIONS, tmp_path / "mine", ignore=shutil.ignore_patterns("__pycache__")))


def check(folder, capsys, *arguments) -> tuple[int, str]:
    status = practice.main(["check", str(folder), *map(str, arguments)])
    return status, capsys.readouterr().out


@pytest.fixture
def here(monkeypatch):
    """Answers found in this process: quicker, for code that comes to an end."""
    monkeypatch.setattr(
        practice, "answers", lambda folder, numbers, _: [practice.answer(folder, practice.EXERCISES[i - 1]) for i in numbers]
    )


def test_start_writes_six_files_and_leaves_alone_what_is_there(tmp_path, capsys):
    (tmp_path / "ex3_backward.py").write_text("# mine")
    assert practice.main(["start", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    assert (tmp_path / "ex3_backward.py").read_text() == "# mine"
    assert "ex3_backward.py: is there, left as it is" in capsys.readouterr().out


def test_the_empty_exercises_fail_each_for_its_own_reason(tmp_path, capsys):
    practice.main(["start", str(tmp_path)])
    capsys.readouterr()
    status, out = check(tmp_path, capsys)
    assert status == 1 and "0 of 6 right" in out and out.count("nothing was returned (None)") == 6
    calls = [line.split("call      ")[1].split("(")[0] for line in out.splitlines() if "   call " in line]
    assert calls == ["byte_alphabet", "one_hot", "lookup_backward", "head_gradient", "add_positions", "adam_step"]


def test_our_own_solutions_pass(folder, capsys):
    status, out = check(folder, capsys)
    assert status == 0 and out.count(": right, ") == 6


def test_no_template_holds_a_solution_and_every_function_of_it_is_asked_for():
    for exercise in checks.EXERCISES:
        template = practice.load(practice.TEMPLATES / exercise.file)
        functions = [name for name, value in vars(template).items() if callable(value) and value.__module__ == template.__name__]
        assert set(functions) == {case.function for case in exercise.cases()}
        source = (practice.TEMPLATES / exercise.file).read_text(encoding="utf-8")
        assert source.count("\n    ...\n") == source.count("def ") == len(functions)


@pytest.mark.parametrize("file, right, wrong, told", [  # the mistakes people make
    ("ex1_bytes.py", "i += 2", "i += 1", ["the pair stands there twice", "expected  ['lo', 'w', 'lo']"]),
    ("ex1_bytes.py", "range(33, 127)", "range(32, 127)", ["at 32 there is ' ', where 'Ġ' is expected"]),
    ("ex2_onehot.py", "ids.min() < 0 or ", "", ["a negative id", "IndexError is raised", "but       returned [["]),
    ("ex2_onehot.py", "return np.linalg.norm", "return 0 * np.linalg.norm", ["expected  1.4142135623730951", "got 0.0"]),
    ("ex3_backward.py", "np.add.at(table, ids, g)", "table[ids] += g", ["case 2 of 6", "id 2 was looked up twice"]),
    ("ex3_backward.py", "g.dtype", "np.float32", ["float64 keeps its precision", "expected  [[1.000000001]]"]),
    ("ex4_tying.py", "np.add.at(total, ids, g @ table)", "total[ids] += g @ table", ["id 3 stands there twice", "tied_gradient"]),
    ("ex4_tying.py", "g.T @ hidden", "hidden.T @ g", ["the shape is (2, 4), where (4, 2) is expected"]),
    ("ex5_positions.py", "positions[:length]", "positions", ["shorter, two in a batch", "but       raised ValueError", "(line 8)"]),
    ("ex5_positions.py", "return vectors + positions[:length]", "vectors += positions[:length]\n    return vectors", ["changed the arguments"]),
    ("ex6_adam.py", "results = table.copy(), m.copy(), v.copy()", "results = adam_step(table, 0 * m, m, v, step, lr)", ["row 0 was not looked up: it stays", "result 0: got"]),
    ("ex6_adam.py", "np.add.at(g, place, rows)", "g[place] = rows", ["an id twice: one step, by the sum"]),
])  # fmt: skip
def test_a_wrong_answer_is_told_the_case_and_what_was_expected(folder, capsys, here, file, right, wrong, told):
    source = (folder / file).read_text()
    assert right in source
    (folder / file).write_text(source.replace(right, wrong))
    status, out = check(folder, capsys, FILES.index(file) + 1)
    assert status == 1
    for part in told:
        assert part in out
    answers = [line.strip() for line in source.splitlines() if len(line.strip()) > 12 and "def " not in line and "import" not in line]
    hint = practice.EXERCISES[FILES.index(file)].hint
    assert not any(answer in out or answer in hint for answer in answers)


@pytest.mark.parametrize("source, told", [
    ("def lookup_backward(:\n", "it cannot be imported: SyntaxError: invalid syntax (line 1)"),
    ("\0", "source code string cannot contain null bytes\n"),
    ("import nonsense_that_is_not_there\n", "it cannot be imported: ModuleNotFoundError: No module named"),
    ("\nraise SystemExit(3)\n", "it cannot be imported: SystemExit: 3 (line 2)"),
    ("def other(): pass\n", "there is no function lookup_backward in the file"),
    ("def lookup_backward(ids, g, n):\n    return 'table'\n", "but       got 'table'"),
    ("def lookup_backward(ids, g, n):\n    return [[1, 2], [3]]\n", "but       got [[1, 2], [3]]"),
    ("def lookup_backward(ids, g, n):\n    x = 1\n    return x / 0\n", "but       raised ZeroDivisionError: division by zero (line 3)"),
    ("def lookup_backward(ids, g):\n    return g\n", "but       raised TypeError: lookup_backward() takes 2 positional arguments but 3 were given"),
])
def test_code_that_does_not_run_is_reported_in_a_line_and_not_a_traceback(folder, capsys, here, source, told):
    (folder / "ex3_backward.py").write_text(source)
    status, out = check(folder, capsys, 3)
    assert status == 1 and told in out and "Traceback" not in out


@pytest.mark.parametrize("source, told", [
    ("while True:\n    pass\n", "ex3_backward.py: still running after 3 seconds: an endless loop?\n"),
    ("def lookup_backward(ids, g, n):\n    while True:\n        try:\n            n += 1\n        except Exception:\n            pass\n",
     "ex3_backward.py: still running after 3 seconds: an endless loop?\n"),
    ("import os\nos._exit(7)\n", "ex3_backward.py: Python ended while it ran, with exit status 7\n"),
], ids=["at import", "in a function", "end of Python"])  # fmt: skip
def test_code_that_does_not_come_to_an_end_fails_and_the_others_are_checked(folder, capsys, source, told):
    (folder / "ex3_backward.py").write_text(source)
    status, out = check(folder, capsys, "--seconds", 3)
    assert status == 1 and told in out and out.count(": right, ") == 5 and "5 of 6 right" in out


def test_what_a_learner_prints_is_seen_before_what_is_said_of_it(folder):
    path = folder / "ex3_backward.py"
    path.write_text("print('looking')\n" + path.read_text())
    done = subprocess.run([sys.executable, practice.__file__, "check", str(folder), "3"], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["looking", "3  ex3_backward.py: right, 6 cases"], done.stderr


def test_the_cases_ask_what_the_lesson_prints():
    row_3 = next(case for case in checks.one_hot_equals_lookup() if case.about == "the lesson's row 3")
    assert practice.expected_text(row_3.expected) == "[[-0.4015, 0.9666, -1.1481]]"
    rows = next(case for case in checks.one_hot_equals_lookup() if case.about == "the lesson's rows 2, 3, 5 and 1")
    assert practice.text(rows.arguments[0]) == "[2, 3, 5, 1]"
    source = (practice.TEMPLATES / "ex2_onehot.py").read_text(encoding="utf-8")
    assert all(f"{number:.4f}" in source for number in checks.table().ravel())


def test_adam_of_the_exercise_is_the_projects():
    dense = [case for case in checks.rows_nobody_looked_up() if case.function == "adam_step"]
    parameter = Parameter(dense[0].arguments[0].copy())
    optimiser = optim.Adam([parameter], lr=0.5)
    for case in dense:
        parameter.grad = Tensor(case.arguments[1])
        optimiser.step()
        assert np.allclose(parameter.data, case.expected[0], rtol=1e-6, atol=1e-6)


def test_the_command_line_has_an_example_and_hints_and_refuses_the_rest_as_wrong_usage(capsys):
    done = subprocess.run([sys.executable, practice.__file__, "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "practice.py start my-exercises" in done.stdout
    assert practice.main(["hint", "3"]) == 0 and "np.add" in capsys.readouterr().out
    for usage in (["hint", "7"], ["hint"], ["check"], ["check", "x", "--seconds", "0"], ["check", "x", "--seconds", "nan"], []):
        with pytest.raises(SystemExit) as stopped:
            practice.main(usage)
        assert stopped.value.code == 2


def test_a_missing_file_and_a_folder_that_cannot_be_are_a_line_each(tmp_path, capsys):
    status, out = check(tmp_path, capsys, 2)
    assert status == 1 and f"there is no such file; python scripts/practice.py start {tmp_path} writes it" in out
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match="2"):
        practice.main(["start", str(tmp_path / "file")])
    assert f"{tmp_path / 'file'} is a file, where a folder is asked for" in capsys.readouterr().err


class Odd(str):
    pass


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no")

    def __array__(self, *_, **__):
        raise TypeError("no array")


@pytest.mark.parametrize("got, expected, told", [
    ({1: np.arange(2)}, {1: "a"}, "where dict is expected"),
    ([np.arange(2)], [1], "got [array([0, 1])], of type list of ndarray, where list of int is expected"),
    (10**5000, 1, "a value of type int that cannot be printed (ValueError)"),
    (Unprintable(), 1, "a value of type Unprintable that cannot be printed (RuntimeError)"),
    (Unprintable(), np.ones(2), "a value of type Unprintable that cannot be printed (RuntimeError)"),
    (Odd("a"), "a", "got 'a' (Odd, not str)"),
    ({1: Odd("a")}, {1: 1}, "at 1 there is 'a', where 1 is expected"),
    (np.float64([1 + 1e-4, 2]).astype(np.float32), np.float32([1 + 1.2e-4, 2]), "up to 2.0e-05 away"),
], ids=range(8))  # fmt: skip
def test_an_answer_that_cannot_be_compared_or_printed_fails_its_case(got, expected, told):
    assert told in practice.compared(got, expected)


def test_whatever_a_learners_file_does_is_told_with_its_line(tmp_path, capsys):
    practice.main(["start", str(tmp_path)])
    (tmp_path / "mine.py").write_text("def helper():\n    raise KeyboardInterrupt\n")
    (tmp_path / practice.EXERCISES[0].file).write_text(
        "from __future__ import annotations\nimport dataclasses, sys\nimport mine\n\nsys.stdout = None\n\n\n"
        "@dataclasses.dataclass\nclass Own:\n    number: int = 1\n\n\n"
        f"def {next(iter(practice.EXERCISES[0].cases())).function}(*_):\n    return mine.helper()\n"
    )
    capsys.readouterr()
    status, out = check(tmp_path, capsys, 1)
    assert status == 1 and "but       raised KeyboardInterrupt: (line 14)" in out.replace(":  (", ": (")
