"""Every number that the lessons this project grew from print, out of a command or an example that a person can run."""
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bpe
from embedding import Embedding, GPTConfig, OneHotEmbedding, TokenEmbedding, memory_report
from minigrad import random

ROOT = Path(__file__).parent.parent
TABLE = """\
tensor([[ 0.3374, -0.1778, -0.1690],
        [ 0.9178,  1.5810,  1.3010],
        [ 1.2753, -0.2010, -0.1606],
        [-0.4015,  0.9666, -1.1481],
        [-1.1589,  0.3255, -0.6315],
        [-2.8400, -0.7849, -1.4096]])
"""
ROWS_2_3_5_1 = """\
tensor([[ 1.2753, -0.2010, -0.1606],
        [-0.4015,  0.9666, -1.1481],
        [-2.8400, -0.7849, -1.4096],
        [ 0.9178,  1.5810,  1.3010]])
"""


def printed(*arguments: str) -> str:
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def layer():
    random.manual_seed(123)
    return Embedding(6, 3)


def test_the_table_of_six_rows_its_row_3_and_its_rows_2_3_5_and_1(layer):
    assert str(layer.weight.detach()) + "\n" == TABLE
    assert str(layer([3]).detach()) == "tensor([[-0.4015,  0.9666, -1.1481]])"
    assert str(layer([2, 3, 5, 1]).detach()) + "\n" == ROWS_2_3_5_1


def test_a_command_prints_the_table_the_rows_and_the_root_of_two():
    out = printed("-m", "embedding", "table")
    assert TABLE in out and ROWS_2_3_5_1 in out
    assert "one-hot vectors times the table: the same numbers" in out and "1.4142 apart" in out


def test_the_one_hot_product_gives_the_same_rows(layer):
    slow = OneHotEmbedding.from_pretrained(layer.weight)
    assert np.array_equal(slow([2, 3, 5, 1]).data, layer([2, 3, 5, 1]).data)


def test_hello_world_is_two_tokens_and_their_vectors_have_the_smallest_gpts_width(fetched):
    fetched("encoder.json"), fetched("vocab.bpe")
    assert bpe.encode("Hello world") == [15496, 995]
    layer = TokenEmbedding(GPTConfig())
    assert layer([bpe.encode("Hello world")]).shape == (1, 2, 768)
    assert sum(parameter.size for parameter in layer.parameters()) == 38_597_376


def test_the_table_is_31_percent_of_the_smallest_gpt_and_its_batch_would_be_6_6_gb_as_one_hot_vectors():
    report = memory_report(GPTConfig(), batch=32, sequence=1024)
    assert round(report.table_share, 2) == 0.31 and report.one_hot_input == 6_587_285_504
    out = printed("-m", "embedding", "memory")
    assert all(number in out for number in ("38,597,376", "124,439,808", "31%", "6.6 GB"))


def test_an_id_that_the_small_table_lacks_is_a_line_and_not_a_traceback():
    done = subprocess.run([sys.executable, "-m", "embedding", "table", "6"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and "id 6 at position 0 is out of range: a table of 6 rows" in done.stderr
