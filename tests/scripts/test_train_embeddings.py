"""The training script on a text of four words: what it leaves, that it can be continued, and what bad input costs."""
import errno
import io
import json
import os
import signal
import sys

import numpy as np
import pytest
import train_embeddings
from training import checkpoints, progress
from training.profile import timed_step
from training.run import Run, Settings, rate
from training.words import Words, report, unigram_entropy

from bpe.alphabet import BYTE_TO_CHARACTER
from embedding.model import NextToken
from embedding.pretrained import from_pretrained
from embedding.windows import SlidingWindows

WORDS = ["two", "three", "year", "years"]
SMALL = ["--width", "6", "--context", "3", "--hidden", "5", "--batch", "16", "--lr", "0.01", "--decay", "15"]
PASS = 12  # batches in a pass over the text below


@pytest.fixture
def folder(tmp_path):
    """A text of 200 tokens and a vocabulary in which each of its words is one."""
    space = BYTE_TO_CHARACTER[32]
    merges: list[str] = []
    for word in WORDS:
        merges += [f"{space}{word[:i]} {word[i]}" for i in range(len(word))]
    merges = list(dict.fromkeys(merges))
    tokens = [*BYTE_TO_CHARACTER.values(), *(merge.replace(" ", "") for merge in merges)]
    (tmp_path / "vocabulary").mkdir()
    ids = {token: id for id, token in enumerate(tokens)}
    (tmp_path / "vocabulary" / "encoder.json").write_text(json.dumps(ids), encoding="utf-8")
    (tmp_path / "vocabulary" / "vocab.bpe").write_text("\n".join(["#version: 0.2", *merges]), encoding="utf-8")
    chosen = np.random.default_rng(0).integers(len(WORDS), size=200)
    (tmp_path / "text.txt").write_text("".join(f" {WORDS[i]}" for i in chosen))
    return tmp_path


@pytest.fixture
def train(folder, capsys):
    """`train("run", "--steps", "5")`: (exit code, what was printed, what was said on stderr)."""

    def call(out, *more, text="text.txt", options=SMALL):
        arguments = ["--text", str(folder / text), "--vocab", str(folder / "vocabulary"), "--out", str(folder / out)]
        code = train_embeddings.main([*arguments, *options, *more])
        return (code, *capsys.readouterr())

    return call


def contents(run):
    return {path.name: path.read_bytes() for path in sorted(run.iterdir())}


# -- a run


def test_a_run_leaves_the_tables_before_and_after_its_losses_and_a_checkpoint(train, folder):
    code, out, err = train("run", "--steps", "40")
    assert (code, err) == (0, "")
    assert list(contents(folder / "run")) == [
        "after.safetensors", "before.safetensors", "checkpoint.safetensors", "losses.jsonl",
    ]  # fmt: skip
    vocab_size = len(json.loads((folder / "vocabulary" / "encoder.json").read_text()))
    assert from_pretrained(folder / "run" / "after.safetensors")([[1, 2, 3]]).shape == (1, 3, 6)
    about, *rows = map(json.loads, (folder / "run" / "losses.jsonl").read_text().splitlines())
    assert about["vocab_size"] == vocab_size and sorted(about["words"]) == ["numbers", "one and many"]
    assert [row["step"] for row in rows] == list(range(1, 41))
    assert rows[0]["loss"] == pytest.approx(np.log(vocab_size), abs=0.01) and rows[-1]["loss"] < rows[0]["loss"]


def test_a_run_ends_with_what_it_came_to(train):
    _, out, _ = train("run", "--steps", "40")
    lines = {line[:18].strip(): line[18:] for line in out.splitlines()}
    assert lines["trained"] == "40 steps of 16 targets: 640 in all"
    assert lines["guessing"] == "5.591 = ln 268"  # 256 bytes and 12 merges
    assert lines["frequencies"].startswith("1.3")  # four words, about as often each: ln 4 = 1.386
    assert lines["rows looked up"].startswith("4 of 2")
    assert "among the 4 most frequent words" in out and "of 2 pairs; chance: 2" in out


def test_a_seed_gives_the_same_run_twice_and_another_seed_another(train, folder):
    for out, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        assert train(out, "--steps", "5", "--seed", seed)[0] == 0
    assert contents(folder / "a") == contents(folder / "b")
    assert contents(folder / "a")["before.safetensors"] != contents(folder / "c")["before.safetensors"]


@pytest.mark.parametrize("stop", [1, PASS - 1, PASS, PASS + 3])
def test_a_run_that_is_resumed_ends_with_the_same_bytes_as_one_that_never_stopped(train, folder, stop):
    assert train("unbroken", "--steps", "20", "--save-every", "7")[0] == 0
    assert train("broken", "--steps", str(stop))[0] == 0
    assert train("broken", "--steps", "20", "--resume", options=[])[0] == 0  # its settings are in the checkpoint
    assert contents(folder / "broken") == contents(folder / "unbroken")


def test_minutes_end_a_run_too(train):
    assert "trained           0 steps" in train("run", "--minutes", "1e-9")[1]


def test_a_loss_that_is_no_number_ends_the_run_and_keeps_the_last_good_checkpoint(train, folder, monkeypatch):
    train("run", "--steps", "3")
    before = contents(folder / "run")
    loss = NextToken.loss
    monkeypatch.setattr(NextToken, "loss", lambda *inputs: loss(*inputs) * float("nan"))
    code, _, err = train("run", "--steps", "9", "--resume")
    assert code == 1 and err == "train_embeddings.py: the loss of step 4 is nan: a smaller --lr, in another --out, may help\n"
    assert contents(folder / "run") == before


def test_a_token_file_is_read_as_a_text_is(train, folder):
    ids = np.arange(100, dtype="<u2")
    ids.tofile(folder / "ids.bin")
    assert train("run", "--steps", "2", text="ids.bin")[0] == 0


def test_without_a_text_one_is_fetched(folder, monkeypatch, capsys):
    from fetching import texts

    monkeypatch.setattr(texts, "load", lambda name: " two three" * 50 if name == "english" else "")
    arguments = ["--vocab", str(folder / "vocabulary"), "--out", str(folder / "run"), "--steps", "1", *SMALL]
    assert train_embeddings.main(arguments) == 0


def test_the_figures_of_a_run_are_drawn_at_its_end(train, folder):
    pytest.importorskip("matplotlib")
    code, out, _ = train("run", "--steps", "5", "--plots", str(folder / "figures"))
    assert code == 0 and "The loss fell from 5.59" in out
    assert sorted(path.name for path in (folder / "figures").iterdir()) == ["loss.png", "moved.png"]


def test_without_matplotlib_plots_are_refused_before_the_training(train, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, said = train("run", "--steps", "5", "--plots", str(folder / "figures"))
    assert code == 1 and said.count("\n") == 1 and "--plots needs matplotlib" in said
    assert not (folder / "run").exists()


@pytest.mark.parametrize("message", ["", "Unable to allocate 9.31 TiB"])
def test_too_little_memory_is_said_in_one_line(train, monkeypatch, message):
    def run(*_):
        raise MemoryError(message)

    monkeypatch.setattr(train_embeddings, "Run", run)
    code, _, said = train("run", "--steps", "5")
    assert code == 1 and said.count("\n") == 1 and "not enough memory" in said and said.rstrip().endswith(message or "help")


def test_the_profile_names_the_parts_of_a_step_and_keeps_nothing(folder, capsys):
    before = sorted(folder.rglob("*"))
    arguments = ["--text", str(folder / "text.txt"), "--vocab", str(folder / "vocabulary"), *SMALL, "--profile"]
    assert train_embeddings.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:18].strip() for line in lines] == [
        "batch", "forward and loss", "backward", "optimiser", "step", "matrix products", "in blocks",
    ]  # fmt: skip
    assert sorted(folder.rglob("*")) == before


def test_a_timed_step_is_a_step(folder):
    windows = SlidingWindows(list(range(50)) * 2, 3, stride=1)
    run = Run(Settings(width=4, context=3, hidden=5, batch=8, vocab_size=50), windows)
    old = run.model.input.wte.weight.data.copy()
    timed_step(run)
    assert (run.model.input.wte.weight.data != old).any()


# -- Ctrl-C, and a disk that fills


def test_ctrl_c_ends_after_the_present_step_and_saves(train, folder, monkeypatch):
    train("unbroken", "--steps", "9")
    loss, calls = NextToken.loss, []

    def interrupted_in_the_middle_of_the_fourth(self, *inputs):
        calls.append(inputs)
        if len(calls) == 4:
            signal.raise_signal(signal.SIGINT)
        return loss(self, *inputs)

    with monkeypatch.context() as patch:
        patch.setattr(NextToken, "loss", interrupted_in_the_middle_of_the_fourth)
        code, out, err = train("run", "--steps", "9")
    assert code == 130 and "stopped after step 4; --resume goes on" in err
    assert "trained           4 steps" in out
    assert train("run", "--steps", "9", "--resume")[0] == 0
    assert contents(folder / "run") == contents(folder / "unbroken")


def test_a_second_ctrl_c_stops_at_once_and_loses_nothing_that_was_saved(train, folder, monkeypatch):
    train("run", "--steps", "3")
    before = contents(folder / "run")

    def twice(*_):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(NextToken, "loss", twice)
    code, _, err = train("run", "--steps", "9", "--resume")
    assert code == 130 and err.count("\n") == 1 and "interrupted" in err
    assert contents(folder / "run") == before


@pytest.mark.parametrize("full_at", range(1, 9))
def test_when_the_disk_fills_the_last_good_checkpoint_is_kept(train, folder, monkeypatch, full_at):
    """A run writes before, then three files each time it saves: full_at is the write that finds no room."""
    train("unbroken", "--steps", "6")
    sync, calls = os.fsync, []

    def until_full(descriptor):
        calls.append(descriptor)
        if len(calls) >= full_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", until_full)
        code, _, err = train("run", "--steps", "6", "--save-every", "3")
    assert code == 1 and err.count("\n") == 1
    assert "No space left on device" in err and str(folder / "run") in err
    assert not [name for name in contents(folder / "run") if name.endswith(".part")]
    if (folder / "run" / "checkpoint.safetensors").exists():
        assert train("run", "--steps", "6", "--resume")[0] == 0
    else:
        assert full_at <= 4 and train("run", "--steps", "6")[0] == 0
    assert contents(folder / "run") == contents(folder / "unbroken")


# -- input that makes no sense


@pytest.mark.parametrize(
    "data, name, reason",
    [
        (b"", "empty.txt", "there are no ids: the text is empty"),
        (b" two", "short.txt", "1 ids are too few: one window of 3 and its target take 4"),
        (b" two three two three", "few.txt", "1 windows of 3 tokens do not fill a batch of 16"),
        (b" two \xff", "latin.txt", "not UTF-8: byte 0xff at 5"),
        (b"", "empty.bin", "the file is empty"),
        (b"\1\0\2\0\3", "odd.bin", "5 bytes, an odd number"),
        (b"\1\0" * 5 + b"\xff\xff", "beyond.bin", "id 65535 at position 5 is beyond the vocabulary"),
        (None, "missing.txt", "No such file"),
    ],
)  # fmt: skip
def test_a_text_that_cannot_be_trained_on_is_one_line_with_its_name_and_nothing_is_written(
    train, folder, data, name, reason
):
    if data is not None:
        (folder / name).write_bytes(data)
    code, out, err = train("run", "--steps", "2", text=name)
    assert (code, out) == (1, "") and err.count("\n") == 1
    assert reason in err and name in err
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    "more, reason",
    [
        (["--width", "7"], "a run with width 6, not 7"),
        (["--context", "4"], "a run with context 3, not 4"),
        (["--seed", "1"], "a run with seed 0, not 1"),
    ],
)
def test_a_checkpoint_of_another_shape_is_refused_and_kept(train, folder, more, reason):
    train("run", "--steps", "2")
    before = contents(folder / "run")
    code, _, err = train("run", "--steps", "4", "--resume", *more, options=[])
    assert code == 1 and reason in err and err.count("\n") == 1
    assert contents(folder / "run") == before


def test_a_checkpoint_of_another_text_is_refused(train, folder):
    train("run", "--steps", "2")
    (folder / "other.txt").write_text(" two three" * 50)
    code, _, err = train("run", "--steps", "4", "--resume", text="other.txt")
    assert code == 1 and "a run with text" in err


def test_a_checkpoint_with_other_settings_than_this_script_has_is_refused_and_kept(train, folder):
    train("run", "--steps", "2")
    path = folder / "run" / "checkpoint.safetensors"
    state = checkpoints.load(path)
    del state["settings"]["decay"]
    checkpoints.save(path, state)
    before = contents(folder / "run")
    code, _, err = train("run", "--steps", "4", "--resume")
    assert code == 1 and err.count("\n") == 1 and str(path) in err and "differ in decay" in err
    assert contents(folder / "run") == before


@pytest.mark.parametrize("damage", [lambda data: data[:1000], lambda data: b"", lambda data: b"{" * 500])
def test_a_damaged_checkpoint_is_refused_by_its_name(train, folder, damage):
    train("run", "--steps", "2")
    path = folder / "run" / "checkpoint.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    code, _, err = train("run", "--steps", "4", "--resume")
    assert code == 1 and err.count("\n") == 1 and "checkpoint.safetensors: damaged, or no safetensors file" in err


def test_a_checkpoint_whose_arrays_do_not_fit_its_settings_is_refused(train, folder):
    train("run", "--steps", "2")
    path = folder / "run" / "checkpoint.safetensors"
    state = checkpoints.load(path)
    state["model"]["hidden.weight"] = np.zeros((2, 2), np.float32)
    checkpoints.save(path, state)
    code, _, err = train("run", "--steps", "4", "--resume")
    assert code == 1 and err.count("\n") == 1 and "size mismatch for hidden.weight" in err


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (["settings"], [], "it has no settings"),
        (["settings", "lr"], "x", "settings differ in lr"),
        (["batch"], "x", "batch is 'x'"),
        (["batch"], 10**9, "batch is 1000000000, where 0 to "),
        (["touched"], np.zeros(5, bool), "touched is bool (5,), where bool ("),
        (["losses"], np.zeros((2, 2)), "losses is float64 (2, 2), where a float for each step should be"),
        (["order"], [1], "no state of a Generator"),
        (["optimizer"], None, "it has no 'optimizer'"),
        (["model", "straight"], None, "straight"),
    ],
)
def test_a_checkpoint_with_something_odd_in_it_is_refused_by_its_name_and_kept(train, folder, path, value, reason):
    train("run", "--steps", "2")
    checkpoint = folder / "run" / "checkpoint.safetensors"
    state = part = checkpoints.load(checkpoint)
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    if value is None:
        del part[path[-1]]
    checkpoints.save(checkpoint, state)
    before = contents(folder / "run")
    code, _, err = train("run", "--steps", "4", "--resume")
    assert code == 1 and err.count("\n") == 1 and str(checkpoint) in err and reason in err
    assert "another --out begins another" in err or reason == "it has no settings"
    assert contents(folder / "run") == before


def test_a_table_in_the_place_of_a_checkpoint_is_refused(train, folder):
    train("run", "--steps", "2")
    (folder / "run" / "after.safetensors").replace(folder / "run" / "checkpoint.safetensors")
    code, _, err = train("run", "--steps", "4", "--resume")
    assert code == 1 and "no checkpoint of a run" in err


def test_a_run_is_not_begun_over_another_nor_resumed_where_there_is_none(train, folder):
    code, _, err = train("run", "--resume", "--steps", "2")
    assert code == 1 and "nothing to resume" in err
    train("run", "--steps", "2")
    before = contents(folder / "run")
    code, _, err = train("run", "--steps", "2")
    assert code == 1 and "holds a run: --resume goes on with it" in err
    assert contents(folder / "run") == before


@pytest.mark.parametrize(
    "arguments, reason",
    [([], "--out is missing"), (["--out", "x", "--steps", "0"], "--steps is 0"), (["--out", "x", "--lr", "-1"], "--lr")],
)
def test_a_command_that_makes_no_sense_is_exit_code_2(arguments, reason, capsys):
    with pytest.raises(SystemExit) as error:
        train_embeddings.main(arguments)
    assert error.value.code == 2 and reason in capsys.readouterr().err


def test_help_has_an_example(capsys):
    with pytest.raises(SystemExit):
        train_embeddings.main(["--help"])
    assert "python scripts/train_embeddings.py --out runs/first --minutes 10" in capsys.readouterr().out


# -- the parts


def test_the_learning_rate_falls_in_a_straight_line_and_stays_above_nothing():
    settings = Settings(lr=1.0, decay=10)
    rates = [rate(settings, step) for step in range(12)]
    assert rates[:10] == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
    assert rates[10:] == [0.05, 0.05]


def test_a_checkpoint_gives_back_what_was_put_in(tmp_path):
    state = {"a": [1, 2.5, None, "x"], "b": {"c": np.arange(3), "d": [np.ones((2, 0), np.float32), np.array(3.0)]}}
    checkpoints.save(tmp_path / "state.safetensors", state)
    back = checkpoints.load(tmp_path / "state.safetensors")
    assert back["a"] == state["a"] and back["b"]["c"].tolist() == [0, 1, 2]
    empty, number = back["b"]["d"]
    assert (empty.shape, empty.dtype) == ((2, 0), np.float32) and (number.shape, float(number)) == ((), 3.0)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def started():
    """A run after four steps of 16 targets, and a clock that says two seconds have passed since the second."""
    run = Run(Settings(width=2, context=2, hidden=2, batch=16, vocab_size=9), SlidingWindows([1, 2, 3], 2))
    run.losses = [2.0, 2.0]
    return run


@pytest.mark.parametrize("has_tqdm", [True, False])
def test_progress_has_the_loss_the_speed_and_the_time_left(started, monkeypatch, has_tqdm):
    if has_tqdm:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    stream, now = Terminal(), iter([100.0, 120.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now, 120.0))
    shown = progress.Progress(started, steps=10, minutes=None, stream=stream)
    started.losses += [1.0, 1.0]
    shown.update()
    shown.close()
    assert "loss 1.500, 2 tokens/s, 1:00 left" in stream.getvalue()


def test_progress_is_quiet_in_a_pipe(started):
    stream = io.StringIO()
    shown = progress.Progress(started, steps=10, minutes=None, stream=stream)
    shown.EVERY = 0
    shown.update()
    assert stream.getvalue() == ""


def test_words_are_whole_tokens_the_most_frequent_first():
    tokens = [b" two", b" three", b"two", b" 7", b"\n", b" \xc3\xa9", b" years", b" year"]
    words = Words(np.array([5, 9, 99, 99, 99, 99, 1, 0]), lambda id: tokens[id])
    assert words.words == ["three", "two", "years"] and words.ids == [1, 0, 6]
    assert words.pairs() == {"numbers": [("two", "three")]}  # "year" does not occur
    assert words.groups() == {"numbers": [(0, "two"), (1, "three")], "one and many": [(6, "years")]}


def test_the_rank_of_a_pair_counts_the_words_that_are_nearer():
    tokens = [b" two", b" three", b" year", b" years"]
    words = Words(np.array([4, 3, 2, 1]), lambda id: tokens[id])
    table = np.array([[1, 0], [0, 1], [1, 0.1], [1, 0.2]], np.float32)
    assert words.pairs() == {"numbers": [("two", "three")], "one and many": [("year", "years")]}
    assert words.ranks(table) == {"numbers": [3], "one and many": [1]}
    assert words.nearest(table, "two", 2) == ["year", "years"]
    lines = list(report(words, table, table[::-1]))
    assert lines[-4].endswith("before: mean 2, median 2, worst 3 of 2 pairs; chance: 2")
    assert lines[-2].split() == ["numbers", "mean", "1,", "median", "1,", "worst", "1", "of", "1", "pairs"]


def test_a_text_without_words_is_reported_as_such():
    assert list(report(Words(np.array([1]), lambda id: b"x"), np.zeros((1, 2)), np.zeros((1, 2)))) == [
        "neighbours        none: 0 of the tokens of this text are words"
    ]


def test_the_unigram_entropy_is_that_of_the_shares():
    assert unigram_entropy(np.array([2, 1, 1, 0])) == pytest.approx(1.5 * np.log(2))


def test_tables_without_numbers_are_not_saved(train, folder):
    assert train("run", "--steps", "1")[0] == 0
    before = contents(folder / "run")
    code, _, err = train("far", "--steps", "1", "--lr", "3e38")
    assert code == 1 and err == (
        "train_embeddings.py: after step 1 the tables are not finite: a smaller --lr, in another --out, may help\n"
    )
    state = checkpoints.load(folder / "far" / "checkpoint.safetensors")
    assert len(state["losses"]) == 0 and np.isfinite(state["model"]["input.wte.weight"]).all()
    assert contents(folder / "run") == before


def test_a_run_without_its_first_tables_is_not_gone_on_with(train, folder):
    train("run", "--steps", "2")
    (folder / "run" / "before.safetensors").unlink()
    before = contents(folder / "run")
    code, _, err = train("run", "--steps", "4", "--resume")
    assert code == 1 and "before.safetensors: No such file" in err and contents(folder / "run") == before


def test_ids_that_are_no_integers_are_a_line_with_the_file(train, folder):
    np.save(folder / "ids.npy", np.ones(50))
    code, _, err = train("run", "--steps", "1", text="ids.npy")
    assert code == 1 and err.count("\n") == 1 and "ids.npy: ids must be integers, got float64" in err


def test_a_text_with_too_few_words_is_trained_on_and_its_words_are_not_drawn(train, folder):
    pytest.importorskip("matplotlib")
    (folder / "digits.txt").write_text(" 1 2" * 100)
    code, out, err = train("run", "--steps", "2", "--plots", str(folder / "figures"), text="digits.txt")
    assert (code, err) == (0, "") and "too few of the words" in out
    assert [path.name for path in (folder / "figures").iterdir()] == ["loss.png"]
