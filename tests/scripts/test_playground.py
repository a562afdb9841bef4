"""The playground without a browser: what it says of a text, what its server refuses, and its other two ways to show."""
import contextlib
import html.parser
import http.client
import json
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import playground
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from page import columns
from page import server as playground_server

import bpe
from bpe.split import split

SCRIPT = Path(playground.__file__)
MIXED = "naïve Café, 🤷🏽‍♀️ don't\n    नमस्ते 你好 <|endoftext|> [MASK] שלום 1234567890 ﷽ zzzzqqqq"


@pytest.fixture(scope="module")
def everything(fetched):
    """The three vocabularies are there."""
    return [fetched(name) for name in ("encoder.json", "bert", "llama")]


def pieces_of(column: dict) -> list[dict]:
    return [piece for group in column["groups"] for piece in group["pieces"]]


# what it says of a text


def test_the_counts_and_the_ids_are_those_of_the_tokenizers(everything):
    answer = columns.carve(MIXED)
    assert (answer["bytes"], answer["characters"]) == (len(MIXED.encode()), len(MIXED))
    assert [column["name"] for column in answer["columns"]] == ["GPT-2", "BERT", "Llama 2"]
    for column, shown in zip(columns.COLUMNS, answer["columns"]):
        ids = list(column.ids(MIXED, False))
        assert [piece["id"] for piece in pieces_of(shown)] == ids
        assert shown["tokens"] == shown["drawn"] == len(ids)
        assert shown["ratio"] == round(len(MIXED.encode()) / len(ids), 2)


def test_a_reader_counts_an_emoji_family_as_one(everything):
    answer = columns.carve("👨‍👩‍👧‍👦")
    assert (answer["graphemes"], answer["characters"], answer["bytes"]) == (1, 7, 25)
    gpt2, bert, llama = answer["columns"]
    assert [len(group["pieces"]) for group in gpt2["groups"]] == [gpt2["tokens"]]  # one group: one picture
    assert [piece["kind"] for piece in pieces_of(bert)] == ["unknown"]
    assert "byte" in [piece["kind"] for piece in pieces_of(llama)]


def test_pieces_that_share_a_character_stand_together_and_others_alone(everything):
    gpt2 = columns.carve("a 🤷 b")["columns"][0]
    assert [group["text"] for group in gpt2["groups"]] == ["a", "␣🤷", "␣b"]
    assert [piece["shown"] for piece in gpt2["groups"][1]["pieces"]] == [r"␣\xf0\x9f", r"\xa4", r"\xb7"]
    assert {piece["covers"] for piece in gpt2["groups"][1]["pieces"]} == {"␣🤷", "🤷"}


def test_special_tokens_are_text_until_they_are_asked_for(everything):
    text = "a<|endoftext|>[MASK]"
    as_text, as_tokens = (columns.carve(text, specials)["columns"] for specials in (False, True))
    assert not [piece for column in as_text for piece in pieces_of(column) if piece["kind"] == "special"]
    specials = [[p["shown"] for p in pieces_of(column) if p["kind"] == "special"] for column in as_tokens]
    assert specials == [["<|endoftext|>"], ["[MASK]"], []]


def test_an_empty_text_has_no_tokens_and_no_ratio(everything):
    for column in columns.carve("")["columns"]:
        assert (column["tokens"], column["ratio"], column["groups"]) == (0, None, [])


@pytest.mark.parametrize("text", [
    "the quick brown fox " * 200, "a" * 3000, "ab" * 40 + " " + "é\u0301" * 1500, "नमस्ते " * 400, "x\u0301" * 2000,
    "word\u0301 " * 500, "🤷" * 800, " " * 3000, "\ud800" * 2000,
])
def test_the_first_pieces_of_a_long_text_are_found_without_the_rest(everything, text):
    for column in columns.COLUMNS:
        ids = column.ids(text, False)
        assert columns.first_pieces(column, text, False, ids, 20) == column.pieces(text, False)[:20]


def test_a_long_text_is_counted_whole_and_drawn_in_part(everything):
    for column in columns.carve("many words " * 20_000)["columns"]:
        assert column["tokens"] >= 40_000 and column["drawn"] == len(pieces_of(column)) == columns.DRAWN


def test_a_vocabulary_that_is_missing_is_named_with_the_command_that_fetches_it(everything, monkeypatch, tmp_path):
    for name in ("GPT2_VOCAB_DIR", "HF_HUB_CACHE"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(columns, "COLUMNS", [columns.COLUMNS[0], columns.BERT(), columns.Llama()])
    gpt2, bert, llama = columns.carve("Hello world")["columns"]
    assert [piece["id"] for piece in pieces_of(gpt2)] == [15496, 995]
    assert "python scripts/download_gpt2_vocab.py bert" in bert["problem"]
    assert "python scripts/download_gpt2_vocab.py llama" in llama["problem"]
    assert "Llama 2 Community License" in llama["licence"]
    assert "download_gpt2_vocab.py bert" in "\n".join(playground.lines("Hello", False, False))

    (tmp_path / "bert").mkdir()  # and is found as soon as it is there
    (tmp_path / "bert/vocab.txt").write_bytes(everything[1].read_bytes())
    assert columns.carve("Hello world")["columns"][1]["tokens"] == 2


# the merges


def test_the_merges_of_a_word_are_told_step_by_step(everything):
    (told,) = columns.merges("so low lower", 3, 4)
    assert (told["start"], told["end"], told["word"], told["ids"]) == (2, 6, "␣low", [1877])
    assert told["steps"][0] == {"parts": ["␣", "l", "o", "w"]}
    assert [step["parts"] for step in told["steps"][1:]] == [["␣l", "o", "w"], ["␣l", "ow"], ["␣low"]]
    assert [(step["at"], step["id"]) for step in told["steps"][1:]] == [(0, 300), (1, 322), (0, 1877)]


@settings(max_examples=60)
@given(st.text(st.sampled_from("ab  \n\t'stéक🤷1,<|") | st.characters(codec="utf-8"), max_size=30))
def test_the_words_are_those_of_the_pattern_and_their_ids_those_of_the_text(text):
    told = columns.merges(text, 0, len(text))
    assert [text[word["start"] : word["end"]] for word in told] == list(split(text))
    assert [id for word in told for id in word["ids"]] == bpe.get_encoding("gpt2").encode_ordinary(text)
    assert all(len(word["steps"][-1]["parts"]) == len(word["ids"]) for word in told)


def test_a_special_token_has_no_merges_and_cuts_the_words_around_it(everything):
    told = columns.merges("Hi!<|endoftext|>", 0, 16, specials=True)
    assert [word["word"] for word in told] == ["Hi", "!", "<|endoftext|>"]
    assert "no part in merges" in told[2]["why"] and told[2]["steps"] == []


def test_a_word_too_long_to_tell_says_so(everything):
    (told,) = columns.merges("a" * 500, 0, 1)
    assert "500 bytes" in told["why"]


# the server


@pytest.fixture(scope="module")
def server(everything):
    rng = np.random.default_rng(0)
    table = columns.Table(rng.normal(size=(50257, 4)).astype(np.float32), "random")
    with playground_server.Server("127.0.0.1", 0, table) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def request(server, method="POST", path="/tokens", body=None, headers=(), host=None) -> tuple[int, dict, str]:
    """The status, the headers and the body of the answer; headers that are None are left out."""
    data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
    given = {"Host": host or f"127.0.0.1:{server.server_port}", "Content-Type": "application/json",
             "Content-Length": str(len(data or b"")), **dict(headers)}
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)) as connection:
        connection.putrequest(method, path, skip_host=True)
        for name, value in given.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(data)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()


HELLO = {"text": "Hello world", "specials": False}


def still_answers(server) -> bool:
    status, _, said = request(server, body=HELLO)
    return status == 200 and [column["tokens"] for column in json.loads(said)["columns"]] == [2, 2, 2]


def test_the_page_is_served_whole_and_asks_for_nothing_from_elsewhere(server):
    status, headers, page = request(server, "GET", "/")
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    assert not re.findall(r"""(?:src|href|url|import)\s*[=(]\s*["']?(?!data:)\w+:""", page) and "//cdn" not in page
    assert request(server, "GET", "/?again")[0] == 200 and request(server, "GET", "/../setup.cfg")[0] == 404


def test_the_policy_allows_the_page_s_own_script_and_style_and_no_other(server):
    policy = request(server, "GET", "/")[1]["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert re.search(r"script-src 'sha256-[\w+/]{43}='; style-src 'sha256-[\w+/]{43}='", policy)
    page = playground_server.PAGE.read_text(encoding="utf-8")
    assert "innerHTML" not in page and "insertAdjacentHTML" not in page and "document.write" not in page
    assert not re.search(r"<[^>]+\s(?:style|on\w+)=", page)


def test_what_is_typed_comes_back_as_json_whatever_it_is(server):
    text = """<script>alert("1")</script> & 'quotes' \ud800 \x00"""
    status, headers, said = request(server, body={"text": text, "specials": True})
    assert status == 200 and headers["Content-Type"] == "application/json" and headers["X-Content-Type-Options"] == "nosniff"
    assert json.loads(said)["characters"] == len(text)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:{port}", "LOCALHOST", "[::1]:{port}", "127.0.0.1:1"])
def test_the_machine_s_own_names_are_answered(server, host):
    assert request(server, body=HELLO, host=host.format(port=server.server_port))[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "localhost.evil.example", "127.0.0.1.evil.example",
                                  "10.0.0.1", "0.0.0.0", "", "127.0.0.1:80:80", "localhost@evil.example"])
def test_a_foreign_host_is_refused(server, host):
    host = host.format(port=server.server_port)
    for method, path in (("GET", "/"), ("POST", "/tokens")):
        status, _, said = request(server, method, path, body=HELLO, headers={"Host": host})
        assert status == 403 and "Host" in json.loads(said)["error"]
    assert still_answers(server)


@pytest.mark.parametrize("headers", [
    {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "https://127.0.0.1:{port}"},
    {"Origin": "http://127.0.0.1:1"}, {"Origin": "http://localhost:{port}"}, {"Content-Type": "text/plain"},
    {"Content-Type": "application/x-www-form-urlencoded"}, {"Content-Type": None},
])
def test_a_post_from_another_page_is_refused(server, headers):
    headers = {name: value and value.format(port=server.server_port) for name, value in headers.items()}
    assert request(server, body=HELLO, headers=headers)[0] == (403 if "Origin" in headers else 400)
    assert still_answers(server)


def test_a_post_from_the_page_itself_is_answered(server):
    assert request(server, body=HELLO, headers={"Origin": f"http://127.0.0.1:{server.server_port}"})[0] == 200


def test_a_server_for_other_machines_still_refuses_names_that_are_not_its_own(everything):
    with playground_server.Server("0.0.0.0", 0) as server:
        handler = object.__new__(playground_server.Handler)
        handler.server = server
        for host, fine in (("192.168.1.5:80", True), ("localhost", True), ("0.0.0.0", True), ("evil.example", False)):
            handler.headers = {"Host": host}
            with contextlib.nullcontext() if fine else pytest.raises(playground_server.Refused):
                handler._check_host()


def test_a_body_over_the_limit_is_told_so(server):
    most = playground_server.LARGEST_BODY
    status, _, said = request(server, body=b"x" * (most + 1))
    assert status == 413 and f"{most:,}" in json.loads(said)["error"]
    padded = json.dumps(HELLO).encode().ljust(most)
    assert request(server, body=padded)[0] == 200 and still_answers(server)


@pytest.mark.parametrize("body, reason", [
    (b"", "not JSON"), (b"{", "not JSON"), (b"\xff\xfe", "not JSON"), (b"[" * 100_000, "not JSON"), ([], "should be an object"),
    ({}, "'text' is null"), ({"text": 7, "specials": False}, "'text' is 7"), ({"text": "a"}, "'specials' is null"),
    ({"text": "a", "specials": 1}, "'specials' is 1"), ({"text": ["<b>"], "specials": True}, "'text' is"),
    (b"1" * 10_000, "not JSON"),
])
def test_a_bad_request_is_told_what_is_wrong_and_the_server_goes_on(server, body, reason):
    status, _, said = request(server, body=body)
    assert status == 400 and reason in json.loads(said)["error"]
    assert still_answers(server)


@pytest.mark.parametrize("length, status", [(None, 411), ("-1", 400), ("many", 400), ("9" * 30, 400), ("1_0", 400)])
def test_a_length_that_is_none_is_refused(server, length, status):
    assert request(server, body=HELLO, headers={"Content-Length": length})[0] == status
    assert still_answers(server)


def test_bytes_that_are_no_request_do_not_end_the_server(server, capsys):
    for data in (b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"POST /tokens HTTP/1.1\r\nHost: 127.0.0.1\r\n", b""):
        with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1000)
    with socket.create_connection(("127.0.0.1", server.server_port)) as connection:  # gone before the answer comes
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert request(server, "BREW", "/")[0] == 501 and request(server, path="/nothing", body=HELLO)[0] == 404
    assert still_answers(server)
    assert "Traceback" not in capsys.readouterr().err


def test_a_fault_of_our_own_is_answered_too(server, monkeypatch):
    monkeypatch.setattr(columns, "carve", lambda *_: 1 / 0)
    assert request(server, body=HELLO)[::2] == (500, '{"error": "ZeroDivisionError: division by zero"}')


def test_many_ask_at_once_and_each_gets_its_own_answer(server):
    texts = [f"number {i} " * (i + 1) for i in range(16)]
    found = {}

    def ask(text):
        found[text] = json.loads(request(server, body={"text": text, "specials": False})[2])["characters"]

    threads = [threading.Thread(target=ask, args=[text]) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {text: len(text) for text in texts}


def test_the_merges_are_asked_for_by_their_place_in_the_text(server):
    body = {"text": "so low", "start": 3, "end": 6, "specials": False}
    assert json.loads(request(server, path="/merges", body=body)[2])[0]["ids"] == [1877]
    assert request(server, path="/merges", body={**body, "start": "3"})[0] == 400


def test_a_row_comes_with_the_rows_nearest_to_it(server):
    row = json.loads(request(server, path="/row", body={"id": 262})[2])
    table = server.table.array
    assert row["values"] == table[262].tolist() and row["norm"] == pytest.approx(np.linalg.norm(table[262]))
    cosines = table @ table[262] / np.linalg.norm(table, axis=1) / np.linalg.norm(table[262])
    assert [near["id"] for near in row["nearest"]] == np.argsort(-cosines)[1:11].tolist()
    for id in (-1, 50257, 1 << 70):
        assert request(server, path="/row", body={"id": id})[0] == 400
    assert json.loads(request(server, body=HELLO)[2])["table"] == "gpt2" and still_answers(server)


# the command


def run(*arguments, **options):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, encoding="utf-8", timeout=60, **options)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends Ctrl-C to the whole console")
def test_it_serves_until_ctrl_c_and_ends_cleanly(everything):
    command = [sys.executable, SCRIPT, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8") as process:
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())[1])
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            connection.request("GET", "/")  # and stays connected
            assert connection.getresponse().status == 200
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "\nthe playground is closed\n", "")


def test_a_taken_port_is_said_plainly():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("--port", str(port))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == f"playground.py: port {port} of 127.0.0.1 is taken; --port names another, --port 0 picks a free one\n"


@pytest.mark.parametrize("arguments, status, reason", [
    (["--port", "70000"], 2, "--port 70000: 0 to 65535"),
    (["--table", "x.safetensors", "--text", "a"], 2, "--table is for the page"),
    (["--table", "nowhere.safetensors"], 1, "nowhere.safetensors"),
    (["--html", "/dev/null/x.html"], 1, "playground.py: "),
    (["--host", "256.256.256.256", "--port", "0"], 1, "cannot serve on 256.256.256.256"),
])
def test_wrong_use_is_one_line_on_stderr(everything, capsys, arguments, status, reason):
    try:
        found = playground.main(arguments)
    except SystemExit as left:
        found = left.code
    out, err = capsys.readouterr()
    assert (found, out) == (status, "") and reason in err.splitlines()[-1] and "Traceback" not in err


def test_a_table_of_no_tokenizer_is_refused(everything, tmp_path, capsys):
    header = b'{"wte.weight": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]}}'
    (tmp_path / "table.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(24))
    assert playground.main(["--table", str(tmp_path / "table.safetensors")]) == 1
    assert capsys.readouterr().err == "playground.py: table.safetensors has the shape (3, 2); GPT-2 has 50,257 rows, BERT 30,522\n"


def test_the_terminal_shows_pieces_with_their_ids_spaces_and_line_ends(everything, capsys, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert playground.main(["--text", "Hi there\n\tunaffable 🤷"]) == 0
    out = capsys.readouterr().out
    assert "[Hi|17250] [␣there|612] [⏎|198]\n[⇥|197] [un|403] [aff|2001] [able|540] [␣\\xf0\\x9f|12520]" in out
    assert "[una|14477] [##ffa|20961] [##ble|3468] [[UNK]|100]" in out and "[▁Hi|6324]" in out and "\x1b" not in out
    assert "GPT-2, byte-level BPE: 10 tokens" in out and "Llama 2 Community License" in out


def test_the_terminal_s_colours_are_those_of_the_ids_wherever_they_stand(everything, capsys, monkeypatch):
    monkeypatch.setenv("COLORTERM", "truecolor")
    playground.main(["--text", "the cat and the dog", "--color", "always"])
    out = capsys.readouterr().out
    red, green, blue = bpe.colours.rgb(262)
    assert f"\x1b[38;5;16;48;2;{red};{green};{blue}m␣the|262\x1b[0m" in out


def test_standard_input_is_a_text_too(everything):
    done = run("--text", "-", "--specials", input="<|endoftext|>")
    assert done.returncode == 0 and "[<|endoftext|>|50256]" in done.stdout
    assert run("--text", "-", input="\udcff", errors="surrogateescape").returncode == 1


class Data(html.parser.HTMLParser):
    """The elements of a page, and what the one with the id "snapshot" holds."""

    def __init__(self):
        super().__init__()
        self.tags, self.inside, self.data = [], False, ""

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.inside = ("id", "snapshot") in attributes

    def handle_data(self, data):
        self.data += data if self.inside else ""

    def handle_endtag(self, tag):
        self.inside = False


def test_a_snapshot_holds_the_text_the_pieces_and_the_merges_and_no_text_can_break_out(everything, tmp_path, capsys):
    text = "</script><script>alert(1)</script><!-- \"quotes\" & low"
    assert playground.main(["--html", str(tmp_path / "page.html"), "--text", text]) == 0
    page = Data()
    page.feed((tmp_path / "page.html").read_text(encoding="utf-8"))
    kept = json.loads(page.data)
    assert page.tags.count("script") == 2 and kept["text"] == text
    assert kept["answer"] == columns.carve(text) and kept["merges"] == columns.merges(text, 0, len(text))
    assert page.tags.index("meta") < page.tags.index("script")  # the policy comes before what it allows
    assert playground_server.policy(playground_server.PAGE.read_text(encoding="utf-8")) in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_page_has_the_terminal_s_colours():
    page = playground_server.PAGE.read_text(encoding="utf-8")
    for lightness, chroma in (bpe.colours.LIGHT, bpe.colours.DARK):
        assert f"oklch({lightness:g} {chroma:g} var(--hue))".replace("0.", ".") in page
    assert f"id * {bpe.colours.GOLDEN_ANGLE} % 360" in page
