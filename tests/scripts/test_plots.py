"""The figures: each is written, and its title is a finding computed from what it shows."""
import json
import struct

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="pip install '.[plots]' brings matplotlib")
import plots  # noqa: E402

from embedding import GPTConfig  # noqa: E402

GROUPS = {"days": [[1, " Monday"], [2, " Tuesday"]], "numbers": [[3, " one"], [4, " two"]]}


def safetensors(table) -> bytes:
    header = {"wte.weight": {"dtype": "F32", "shape": table.shape, "data_offsets": [0, table.nbytes]}}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + table.astype("<f4").tobytes()


@pytest.fixture
def run(tmp_path):
    """The folder of a run: the loss falls from 10 to 6, days end in one place and numbers in another."""
    folder = tmp_path / "run"
    folder.mkdir()
    about = {"vocab_size": 50257, "unigram_entropy": 7.0, "words": GROUPS}
    rows = [{"step": n, "loss": 10 - n / 25} for n in range(101)]
    (folder / "losses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [about, *rows]))
    before = np.eye(8, dtype=np.float32)
    after = before.copy()
    after[1:3], after[3:5] = [1, 0, 0, 0, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0, 0, 0]
    (folder / "before.safetensors").write_bytes(safetensors(before))
    (folder / "after.safetensors").write_bytes(safetensors(after))
    return folder


def test_every_figure_is_written_with_its_finding(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(plots, "GPT2", GPTConfig(vocab_size=50, n_embd=12))
    assert plots.main(["--out", str(tmp_path / "figures"), "--run", str(run)]) == 0
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == sorted(f"{name}.png" for name in plots.FIGURES)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in (tmp_path / "figures").iterdir())
    findings = capsys.readouterr().out
    assert "its row gets the sum of both gradients" in findings
    assert "The loss fell from 10.00 to 6.02, 0.98 below what knowing only each token's frequency gives" in findings
    assert "The mean cosine of words of a kind was 0.00 before training and is 1.00 after" in findings


def test_sgd_moves_what_was_looked_up_and_adam_more_unless_its_gradient_is_row_sparse():
    import matplotlib.pyplot as plt

    figure, finding = plots.touched(plt, None)
    sgd, adam, sparse = (panel.get_title() for panel in figure.axes[:3])
    assert sgd == "SGD\n72 moves, 0 unasked" and sparse == "Adam, row-sparse gradient\n72 moves, 0 unasked"
    assert adam.startswith("Adam\n") and f"Adam moves {adam.split()[3]} times" in finding and int(adam.split()[3]) > 100
    plt.close("all")


def test_the_figure_of_a_repeated_id_shows_the_engines_gradient_and_numpys_mistake():
    import matplotlib.pyplot as plt

    figure, _ = plots.repeated(plt, None)
    _, added, assigned = (panel.images[0].get_array() for panel in figure.axes)
    assert added[2].tolist() == [2, 1.5, -1.5] and assigned[2].tolist() == [1, 1, -0.5]
    plt.close("all")


@pytest.mark.parametrize("line, change, told", [
    (0, "{}", "line 1: a JSON object with vocab_size and unigram_entropy, finite numbers, should be here"),
    (5, '{"step": 5, "lo', "line 6: a JSON object with step and loss, finite numbers, should be here"),
    (5, "[5, 6]", "line 6: a JSON object"),
    (5, '{"step": 5, "loss": NaN}', "line 6: a JSON object with step and loss, finite numbers"),
    (0, '{"vocab_size": -5, "unigram_entropy": 1}', "line 1: a JSON object with vocab_size"),
    (0, '{"vocab_size": 9, "unigram_entropy": 1e400}', "line 1: a JSON object with vocab_size"),
])
def test_a_damaged_log_is_named_with_its_line_and_no_figure_is_left(run, tmp_path, capsys, line, change, told):
    lines = (run / "losses.jsonl").read_text().splitlines()
    lines[line] = change
    (run / "losses.jsonl").write_text("\n".join(lines))
    assert plots.main(["--out", str(tmp_path / "figures"), "--run", str(run), "loss"]) == 1
    assert told in capsys.readouterr().err and not (tmp_path / "figures").exists()


def test_a_run_that_lacks_something_says_what(run, tmp_path, capsys):
    (run / "after.safetensors").unlink()
    assert plots.main(["--out", str(tmp_path), "--run", str(run), "moved", "loss"]) == 1
    assert f"plots.py: moved: {run / 'after.safetensors'}: No such file" in capsys.readouterr().err
    assert (tmp_path / "loss.png").exists()  # one figure that fails does not take the others with it


def test_tables_of_two_runs_are_refused(run, tmp_path, capsys):
    (run / "after.safetensors").write_bytes(safetensors(np.eye(9, dtype=np.float32)))
    assert plots.main(["--out", str(tmp_path), "--run", str(run), "moved"]) == 1
    assert "the table is (8, 8) before and (9, 9) after: of two runs" in capsys.readouterr().err


@pytest.mark.parametrize("arguments, told", [
    (["--out", "x", "pie"], "there is no figure 'pie'"),
    (["--out", "x", "loss"], "loss is of a training run: --run names its folder"),
    ([], "--out"),
])
def test_the_command_line_refuses_what_it_does_not_know(arguments, told, capsys):
    with pytest.raises(SystemExit) as stopped:
        plots.main(arguments)
    assert stopped.value.code == 2 and told in capsys.readouterr().err


def test_a_loss_that_rose_is_not_said_to_have_fallen(tmp_path, capsys):
    about = {"vocab_size": 8, "unigram_entropy": 2.0}
    rows = [about, *({"step": step, "loss": step} for step in range(1, 5))]
    (tmp_path / "losses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert plots.main(["--out", str(tmp_path), "--run", str(tmp_path), "loss"]) == 0
    assert "The loss rose from 1.00 to 4.00" in capsys.readouterr().out
