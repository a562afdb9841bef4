"""memory_report: the published sizes, and each figure the lesson names."""
import json
import subprocess
import sys
from pathlib import Path

import pytest

from embedding import GPTConfig, memory_report
from embedding.memory import GPT2_SIZES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name, parameters, share", [  # the parameter counts of the published checkpoints
    ("gpt2", 124_439_808, "31%"), ("gpt2-medium", 354_823_168, "15%"),
    ("gpt2-large", 774_030_080, "8%"), ("gpt2-xl", 1_557_611_200, "5%"),
])
def test_gpt2s_four_sizes_have_their_parameters_and_the_tables_share_falls(name, parameters, share):
    report = memory_report(GPT2_SIZES[name], 1, 1024)
    assert report.parameter_count == parameters
    assert f"{report.table_share:.0%}" == share


def test_the_lessons_numbers():
    report = memory_report(GPTConfig(), batch=32, sequence=1024)
    assert report.table_count == 38_597_376
    assert report.one_hot_input == 32 * 1024 * 50257 * 4 and "6.6 GB" in str(report)
    assert report.one_hot_input / report.ids > 25_000
    assert report.tying_saves == 38_597_376 * 4


def test_training_needs_four_times_the_parameters_before_an_activation_is_kept():
    report = memory_report(GPTConfig(), 1, 1)
    assert report.gradients + report.adam_state == 3 * report.parameters == 12 * report.parameter_count


def test_activations_follow_the_batch_and_attention_the_square_of_the_sequence():
    config = GPTConfig(n_layer=2, n_head=2, n_embd=8, vocab_size=10, block_size=64)
    one, two, long = (memory_report(config, b, t).activations for b, t in ((1, 16), (2, 16), (1, 32)))
    assert two == 2 * one
    assert long - 2 * one == 4 * config.n_layer * config.n_head * (32**2 - 2 * 16**2)


@pytest.mark.parametrize("batch, sequence, message", [
    (0, 4, "batch must be at least 1, got 0"), (1, 0, "sequence must be at least 1"),
    (1, 1025, "a sequence of 1025 tokens is longer than the position table: 1024"),
])
def test_a_batch_that_no_model_could_read_is_refused(batch, sequence, message):
    with pytest.raises(ValueError, match=message):
        memory_report(GPTConfig(), batch, sequence)


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "embedding", *arguments], cwd=ROOT, capture_output=True, text=True)


def test_the_command_prints_the_report_of_a_model():
    done = run("memory", "--model", "gpt2-xl")
    assert done.returncode == 0 and "1,557,611,200" in done.stdout and "6.6 GB" in done.stdout
    assert "31%  50,257 x 768 = 38,597,376 of 124,439,808" in run("memory").stdout


def test_the_command_prints_json_for_all_four():
    rows = [json.loads(line) for line in run("memory", "--model", "all", "--json").stdout.splitlines()]
    assert [row["model"] for row in rows] == list(GPT2_SIZES)
    assert rows[0]["tying_saves"] == 154_389_504


def test_the_command_refuses_what_makes_no_sense_as_wrong_usage():
    done = run("memory", "--sequence", "2000")
    assert done.returncode == 2 and "longer than the position table: 1024" in done.stderr and "Traceback" not in done.stderr
