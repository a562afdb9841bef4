"""A corpus in tasks: however files are cut, the ids are those of each document alone."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bpe
from bpe import Encoding
from bpe.classes import stand_ins
from bpe.corpus import SPACES, CorpusEncoder, Settings, Span, next_cut
from bpe.split import GPT2_PATTERN, split

# Characters that take part in every rule of the pattern: whitespace of one to three bytes, what Python takes for
# whitespace and the pattern does not, and a contraction's ending.
CHARACTERS = [" ", "\n", "\t", "\r", "\u00a0", "\u3000", "\u2028", "\x1c", "a", "B", "é", "中", "😀", "1", "²", "!", "'s", "'", "<|endoftext|>"]
TEXT = st.lists(st.sampled_from(CHARACTERS), max_size=12).map("".join)
EOT = 50256


@pytest.fixture(scope="module")
def encoding():
    return bpe.get_encoding("gpt2")


@pytest.fixture(scope="module")
def encoder(encoding):
    return CorpusEncoder(encoding, Settings())


def spans_of(path, kind, most):
    size = path.stat().st_size
    return [Span(str(path), kind, start, min(start + most, size), size) for start in range(0, max(size, 1), most)]


def ids_of(encoder, spans, together=1):
    """The training ids of spans, some spans a task."""
    tasks = [spans[i : i + together] for i in range(0, len(spans), together)]
    return [id for task in tasks for id in encoder.encode(task).ids[0].tolist()]


@settings(max_examples=300)
@given(st.lists(TEXT, max_size=6))
def test_documents_encoded_together_have_the_ids_of_each_alone(encoder, encoding, texts):
    ids, counts = encoder.together(texts)
    alone = [[*encoding.encode_ordinary(text), EOT] for text in texts]
    assert ids.tolist() == [id for ids in alone for id in ids]
    assert counts.tolist() == [len(ids) for ids in alone]


@settings(max_examples=60)
@given(st.lists(TEXT, max_size=6).map("".join), st.integers(3, 40), st.integers(1, 3))
def test_a_document_cut_anywhere_has_the_ids_of_the_whole(tmp_path_factory, encoding, encoder, text, most, together):
    path = tmp_path_factory.getbasetemp() / "document.txt"
    path.write_bytes(text.encode())
    spans = spans_of(path, "file", most)
    assert ids_of(encoder, spans, together) == [*encoding.encode_ordinary(text), EOT]
    at_start = CorpusEncoder(encoding, Settings(eot="start"))
    assert ids_of(at_start, spans, together) == [EOT, *encoding.encode_ordinary(text)]


@settings(max_examples=60)
@given(st.lists(TEXT, max_size=6), st.integers(3, 40), st.sampled_from(["\n", "\r\n", "<|endoftext|>", "中é"]))
def test_spans_of_a_file_give_each_document_once(tmp_path_factory, encoding, documents, most, separator):
    path = tmp_path_factory.getbasetemp() / "documents.txt"
    data = separator.join(documents)
    path.write_bytes(data.encode())
    kind = "separator" if separator.strip("\r\n") else "line"
    expected = data.split(separator) if kind == "separator" else data.replace("\r\n", "\n").split("\n")
    expected = expected if expected[-1] else expected[:-1]
    encoder = CorpusEncoder(encoding, Settings(separator=separator))
    assert ids_of(encoder, spans_of(path, kind, most)) == [id for text in expected for id in [*encoding.encode_ordinary(text), EOT]]


@settings(max_examples=60)
@given(st.binary(max_size=60) | st.lists(st.sampled_from([b"\xe4", b"\xb8", b"\xad", b" ", b"a", b"\n", b"\xff", "中".encode()])).map(b"".join), st.integers(2, 20))
def test_damaged_bytes_are_replaced_alike_wherever_the_file_is_cut(tmp_path_factory, encoding, data, most):
    path = tmp_path_factory.getbasetemp() / "damaged.txt"
    path.write_bytes(data)
    encoder = CorpusEncoder(encoding, Settings(errors="replace"))
    assert ids_of(encoder, spans_of(path, "file", most)) == [*encoding.encode_ordinary(data.decode(errors="replace")), EOT]


@given(st.lists(TEXT, max_size=8).map("".join), st.integers(1, 60))
def test_a_cut_inside_a_document_is_where_a_piece_begins(text, at):
    data = text.encode()
    cut = next_cut(data, at, "file", b"")
    if cut is not None:
        left, right = data[:cut].decode(), data[cut:].decode()
        assert cut >= at and split(left) + split(right) == split(text)


def test_the_whitespace_is_that_of_the_pattern_and_not_that_of_python():
    assert set(SPACES) == {chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and stand_ins(chr(c)) in "\t\n\v\f\r "}


def test_a_long_document_costs_its_own_span_alone(tmp_path, encoder, monkeypatch):
    path = tmp_path / "lines.txt"
    path.write_bytes(b"one\n" + b"x" * 100_000 + b"\ntwo\n")
    spans = spans_of(path, "line", 1000)
    documents = [sum(encoder.encode([span]).documents) for span in spans]
    assert documents[0] == 2 and sum(documents) == 3 and documents[-1] == 1


def test_validation_is_told_by_the_beginning_of_a_document(tmp_path, encoding):
    documents = [f"document {i}: {'word ' * i}" for i in range(100)]
    encoder = CorpusEncoder(encoding, Settings(val_fraction=0.3))
    data = "\n".join(documents).encode()
    lines = encoder.encode([Span("a", "line", 0, len(data), len(data), data=data)])
    for document in documents:
        (tmp_path / "b.txt").write_text(document)
        alone = [encoder.encode([span]) for span in spans_of(tmp_path / "b.txt", "file", 100)]
        assert sum(part.documents[1] for part in alone) == (document in chosen(encoder, documents))
        assert all(not len(part.ids[0]) or not len(part.ids[1]) for part in alone)
    assert lines.documents[1] == len(chosen(encoder, documents)) and 20 < lines.documents[1] < 40
    assert lines.ids[1].tolist() == [id for text in chosen(encoder, documents) for id in [*encoding.encode_ordinary(text), EOT]]


def chosen(encoder, documents):
    return [document for document in documents if encoder.is_val(document[:1024])]


def test_the_text_of_a_special_token_is_text_and_an_empty_document_is_its_end_alone(encoder):
    data = b"<|endoftext|>\n\nx\n"
    assert encoder.encode([Span("-", "line", 0, 17, 17, data=data)]).ids[0].tolist() == [27, 91, 437, 1659, 5239, 91, 29, EOT, EOT, 87, EOT]


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        ("file", b"good\nb\xffad", r"f, |f: byte 106 \(0xff\) is not UTF-8"),
        ("jsonl", b'{"text": "a"}\n{"text": "a"\n', r"f, the line at byte 114: Expecting"),
        ("jsonl", b'{"text": "a"}\n{"body": "a"}\n', r"f, the line at byte 114: no field 'text'; it has 'body'"),
        ("jsonl", b'{"text": 3}\n', r"f, the line at byte 100: field 'text' is int, not a string"),
        ("jsonl", b"[1]\n", r"f, the line at byte 100: list where an object should be"),
        ("jsonl", b"[" * 100_000, r"f, the line at byte 100: "),
    ],
)  # fmt: skip
def test_bad_text_is_refused_with_the_file_and_the_place(encoder, kind, data, message):
    with pytest.raises(ValueError, match=message):
        encoder.encode([Span("f", kind, 100, 100 + len(data), -1, data=data)])


def test_half_a_character_in_a_document_from_json_is_bad_text_as_bad_bytes_are(encoder, encoding):
    data = b'{"text": "a\\ud83d\\ude00 \\ud83d"}\n\n'
    span = Span("-", "jsonl", 0, len(data), len(data), data=data)
    with pytest.raises(ValueError, match=r"-, the line at byte 0: '.ud83d' is half of a character; --errors replace"):
        encoder.encode([span])
    lenient = CorpusEncoder(encoding, Settings(errors="replace"))
    assert lenient.encode([span]).ids[0].tolist() == [*encoding.encode_ordinary("a😀 \ufffd"), EOT]


def test_a_file_that_was_cut_short_since_is_listed(tmp_path, encoder):
    (tmp_path / "a.txt").write_text("one two")
    spans = [Span(str(tmp_path / "a.txt"), "line", 0, 20, 20), Span(str(tmp_path / "gone.txt"), "file", 0, 3, 3)]
    encoded = encoder.encode(spans)
    assert encoded.documents == (0, 0)
    assert [reason for _, reason in encoded.failures] == ["it has 7 bytes, where there were 20: it was changed", "No such file or directory"]


def test_another_pattern_than_gpt2s_is_refused():
    ranks = {bytes([byte]): byte for byte in range(256)}
    other = Encoding("other", pat_str=r"\s*\S+", mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 256})
    with pytest.raises(ValueError, match="<Encoding 'other'> has not GPT-2's pattern"):
        CorpusEncoder(other, Settings())


def test_ids_that_do_not_fit_are_refused_and_never_wrapped():
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"ab": 70_000}
    large = Encoding("large", pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 256})
    with pytest.raises(ValueError, match="ids up to 70,000, and uint16 holds no more than 65,535"):
        CorpusEncoder(large, Settings())
    data = b"ab\n"
    assert CorpusEncoder(large, Settings(), "<u4").encode([Span("-", "line", 0, 3, 3, data=data)]).ids[0].tolist() == [70_000, 256]


def test_ids_come_in_the_type_of_the_file(encoder):
    assert encoder.encode([]).ids[0].dtype == np.dtype("<u2")
