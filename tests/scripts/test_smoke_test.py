"""scripts/smoke_test.py: what it prints for "Hello world", and that a wrong step is an error."""
import functools

import pytest
import smoke_test


def test_it_prints_the_facts_of_the_road_from_hello_world(capsys):
    assert smoke_test.main(["Hello world", "the the"]) == 0
    out = capsys.readouterr().out
    hello, the = out.split("\n\n")
    facts = dict(line.split(maxsplit=1) for line in hello.splitlines() if "  " in line)
    assert facts["ids"] == "[15496, 995]"
    assert facts["vocabulary"] == "50257" and facts["parameters"] == "38,597,376"
    assert facts["embedding"] == "shape (1, 2, 768), float32"
    assert "[995, 15496] of 50257" in hello and "'Hello world'" in hello
    assert the.splitlines()[-1].startswith("ok")


def test_a_gradient_in_the_wrong_rows_is_an_error_in_one_line(monkeypatch, capsys):
    right = smoke_test.gradient_of_the_table

    def wrong(layer, ids, **options):
        gradient = right(layer, ids, **options)
        gradient[0, 0] = 1
        return gradient

    monkeypatch.setattr(smoke_test, "GPTConfig", functools.partial(smoke_test.GPTConfig, n_embd=12))  # a small table
    monkeypatch.setattr(smoke_test, "gradient_of_the_table", wrong)
    assert smoke_test.main(["Hello"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "rows have a gradient that are not the rows looked up" in error


def test_help_has_an_example(capsys):
    with pytest.raises(SystemExit) as done:
        smoke_test.main(["--help"])
    assert done.value.code == 0 and "examples:" in capsys.readouterr().out


@pytest.mark.parametrize("text", [" the the the", "the cat and the dog and the bird and the fish", " the" * 500])
def test_a_word_may_come_often(text, monkeypatch, capsys):
    monkeypatch.setattr(smoke_test, "GPTConfig", functools.partial(smoke_test.GPTConfig, n_embd=12))  # a small table
    assert smoke_test.main([text]) == 0
    assert "and its row has the sum" in capsys.readouterr().out
