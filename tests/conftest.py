"""What every test shares: hypothesis settings, the reference implementations, and CI's rule about skips."""
import importlib
import os
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
hypothesis.settings.load_profile("default")

PARITY = Path(__file__).parent / "parity"


def reference(name: str):
    """The reference implementation `name`, or a skip that says how to install it."""
    return pytest.importorskip(
        name, reason=f"{name} is not installed: pip install '.[parity]' brings the reference implementations"
    )


@pytest.fixture(scope="session")
def torch():
    return reference("torch")


@pytest.fixture(scope="session")
def tokenizers():
    return reference("tokenizers")


@pytest.fixture(scope="session")
def sentencepiece():
    return reference("sentencepiece")


@pytest.fixture(scope="session")
def tiktoken_gpt2():
    """tiktoken's own Encoding, built from the project's two files, so that no test needs the network."""
    tiktoken = reference("tiktoken")
    load = importlib.import_module("tiktoken.load")
    from bpe import files

    encoder_json, vocab_bpe = files.find_gpt2()
    ranks = load.data_gym_to_mergeable_bpe_ranks(str(vocab_bpe), str(encoder_json))
    return tiktoken.Encoding(
        "gpt2",
        pat_str=r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s""",
        mergeable_ranks=ranks,
        special_tokens={"<|endoftext|>": 50256},
    )


@pytest.fixture(scope="session")
def fetched():
    """The path of a fetched file by its name, `fetched("bert")`; a skip that says how to fetch it if it is not there."""
    from bpe import files

    def path(name: str) -> Path:
        try:
            return files.find(name)
        except FileNotFoundError:
            pytest.skip(f"{name} is not in the cache: python scripts/download_gpt2_vocab.py --all fetches it")

    return path


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Under CI a skipped parity test is a failure: a missing oracle must not pass for agreement."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("CI") and PARITY in Path(item.path).parents:
        report.outcome = "failed"
        report.longrepr = f"under CI a parity test may not be skipped: {report.longrepr}"
