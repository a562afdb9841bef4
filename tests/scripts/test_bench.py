"""The measuring code on toy work: what a row says, never how long anything took."""
import itertools
import json
import subprocess
import sys
from pathlib import Path

import bench
import pytest
from benchmarks import pairs

BENCH = Path(bench.__file__)


IN_A_CHILD = """
import os
from benchmarks import pairs

def environment(*names_and_heap):
    *names, heap = names_and_heap
    yield pairs.Row(f"{heap}: {[os.environ.get(name) for name in names]}", (2.0,), (4.0,))

def fail():
    yield 1
    raise KeyError("lost")

def fill(mebibytes):
    return lambda: len(b"x" * (mebibytes << 20))
"""


@pytest.fixture
def in_a_child(tmp_path, monkeypatch):
    """The name of a module with the functions above, which a child process can import."""
    (tmp_path / "toy_in_a_child.py").write_text(IN_A_CHILD)
    monkeypatch.syspath_prepend(tmp_path)
    return "toy_in_a_child"


def test_time_is_ours_over_theirs_and_wants_to_be_small():
    row = pairs.Row("work", (1.0, 2.0, 9.0), (2.0, 2.0, 3.0), bound=1.0)
    assert (row.ratio, row.spread, row.holds) == (1.0, (0.75, 2.0), True)
    assert "time, ours / torch: 1.00 (0.75 to 2.00) | bound <= 1 | holds" in row.text()


def test_speed_is_the_inverse_of_the_same_seconds_and_wants_to_be_large():
    row = pairs.Row("work", (1.0, 1.0), (3.0, 5.0), "speed", 5.0, "tiktoken", amount=5.0, unit="MB")
    assert (row.ratio, row.holds) == (4.0, False)
    assert "ours 5 MB/s (best 5) | tiktoken 1.25 MB/s" in row.text()
    assert "speed, ours / tiktoken: 4.00 (3.50 to 4.50) | bound >= 5 | FALLS SHORT" in row.text()


def test_memory_is_in_mib_and_wants_to_be_small():
    row = pairs.Row("work", (10.0,), (40.0,), "memory", 0.25)
    assert row.holds
    assert "ours 10.0 MiB (least 10.0) | torch 40.0 MiB (least 40.0)" in row.text()
    assert "memory, ours / torch: 0.25" in row.text()


def test_a_row_that_has_no_peer_only_reports():
    row = pairs.Row("work", (0.0123,), bound=1.0)
    assert row.holds is None and row.text().endswith("| ours 12.3 ms (least 12.3)")


def test_a_row_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="measure is 'tiem'"):
        pairs.Row("work", measure="tiem")
    with pytest.raises(ValueError, match="2 figures of ours, 1 of theirs"):
        pairs.Row("work", (1.0, 2.0), (1.0,))


@pytest.mark.parametrize("quick, count", [(False, 9), (True, 3)])
def test_ours_and_theirs_run_in_turn_and_change_who_goes_first(quick, count):
    order = []
    ours, theirs, before = (lambda letter=letter: order.append(letter) for letter in "ot-")
    row = pairs.compare("toy", ours, theirs, quick=quick, before=before)
    assert len(row.ours) == len(row.theirs) == count
    assert "".join(order) == "-o-t" + "".join(itertools.islice(itertools.cycle(["-o-t", "-t-o"]), count))


def test_short_work_is_repeated_within_a_sample():
    calls = itertools.count()
    pairs.compare("toy", lambda: next(calls), lambda: None, quick=True)
    assert next(calls) > 2 + pairs.QUICK_PAIRS


def test_a_heap_is_chosen_before_the_process_starts(in_a_child):
    default, kept = pairs.under_both_heaps(f"{in_a_child}:environment", *pairs.KEEP)
    assert default.what == "default heap: [None, None]"
    assert kept.what == f"blocks kept: {list(pairs.KEEP.values())}"
    assert kept == pairs.Row(kept.what, (2.0,), (4.0,))


def test_a_child_that_fails_says_why(in_a_child):
    values = pairs.in_child(f"{in_a_child}:fail")
    assert next(values) == 1
    with pytest.raises(RuntimeError, match=r"failed in a child process \(exit code 1\): KeyError: 'lost'"):
        next(values)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory needs Linux's /proc")
def test_peak_memory_is_what_the_work_adds_though_it_is_given_back(in_a_child):
    assert 60 < pairs.peak_memory(f"{in_a_child}:fill", 64) < 72


class Toy:
    PEERS = ("numpy", "no-such-package")

    @staticmethod
    def rows(quick):
        yield pairs.Row("toy work", (1.0,), (2.0,), bound=1.0)
        yield pairs.skipped("other work", pairs.missing("no-such-package"))


@pytest.fixture
def toy(monkeypatch):
    for name in bench.THREADS:  # main() sets them: put back what was there
        monkeypatch.setenv(name, "1")
    monkeypatch.setitem(sys.modules, "benchmarks.toy", Toy)
    monkeypatch.setattr(bench, "SUITES", {"toy": "toy"})


def test_the_first_line_names_versions_threads_and_absent_peers(toy, capsys):
    assert bench.main(["toy", "--threads", "3"]) == 0
    first, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith("Python 3.") and "numpy " in first and "threads: 3; pairs: 9" in first
    assert "no-such-package not installed: skipped" in first
    assert [row.split()[:3] for row in rows] == [["toy:", "toy", "work"], ["toy:", "other", "work"]]
    assert rows[1].endswith("skipped: no-such-package not installed")


def test_json_has_an_object_a_line(toy, capsys):
    assert bench.main(["--json", "--quick"]) == 0
    first, row, absent = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["pairs"] == 3 and first["versions"]["no-such-package"] is None
    assert row["suite"] == "toy" and row["ratio"] == 0.5 and row["direction"] == "time, ours / torch"
    assert row["holds"] is True and absent["skipped"]


def test_a_suite_that_is_not_there_or_fails_is_one_line_and_exit_code_1(toy, monkeypatch, capsys):
    def rows(quick):
        yield pairs.Row("first", (1.0,))
        raise OSError("the disk is full")

    monkeypatch.setattr(Toy, "rows", rows)
    monkeypatch.setitem(bench.SUITES, "later", "later")
    assert bench.main([]) == 1
    out, err = capsys.readouterr()
    assert "toy: first" in out
    assert err.splitlines() == [
        "bench.py: suite later cannot be imported: ModuleNotFoundError: No module named 'benchmarks.later'",
        "bench.py: suite toy stopped: OSError: the disk is full",
    ]


def test_the_command_line_has_help_and_refuses_what_it_does_not_know():
    help_text = subprocess.run([sys.executable, BENCH, "--help"], capture_output=True, text=True)
    assert help_text.returncode == 0 and "python scripts/bench.py layer --quick" in help_text.stdout
    unknown = subprocess.run([sys.executable, BENCH, "speling"], capture_output=True, text=True)
    assert unknown.returncode == 2 and "there is no suite 'speling'" in unknown.stderr
