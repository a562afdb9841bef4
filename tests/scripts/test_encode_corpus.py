"""A corpus becomes the same token files whoever does the work, and however often it is interrupted."""
import errno
import functools
import gzip
import hashlib
import io
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import encode_corpus
import numpy as np
import pytest
from corpus import executors, output, tasks
from corpus.tasks import Task

import bpe
from bpe.corpus import CorpusEncoder, Settings, Span
from embedding.windows import SlidingWindows, token_file

SCRIPT = Path(encode_corpus.__file__)
EOT = 50256
WORDS = ["the", "of", "and\n", "to", "", "in's", "a\tis", "中文", "café", "1984", "<|endoftext|>", "it's\n\n", "été", "😀", "was", "", "", "for"]

VOCABULARY = functools.cache(encode_corpus.read_vocabulary)  # a third of a second each time


def document(draw, length):
    return " ".join(draw.choices(WORDS, k=length))


@pytest.fixture
def corpus(tmp_path):
    """A folder of texts, one of them larger than many tasks, and its documents in order."""
    draw = random.Random(0)
    texts = {f"{i:02d}.txt": document(draw, draw.randrange(60)) for i in range(30)}
    texts |= {"07.txt": "", "20.txt": document(draw, 3000)}
    (tmp_path / "texts" / "inner").mkdir(parents=True)
    for name, text in texts.items():
        (tmp_path / "texts" / name).write_bytes(text.encode())
    (tmp_path / "texts" / "inner" / "last.txt").write_bytes(b"last\n")
    (tmp_path / "texts" / "inner" / "not.md").write_bytes(b"not this")
    return tmp_path / "texts", [texts[name] for name in sorted(texts)] + ["last\n"]


@pytest.fixture
def encode(tmp_path, capsys, monkeypatch):
    """`encode(input, ..., out="out")`: (exit code, stderr); tasks are of 500 bytes, and recorded every second."""
    monkeypatch.setattr(tasks, "TASK_BYTES", 500)
    monkeypatch.setattr(output, "EVERY", 2)
    monkeypatch.setattr(encode_corpus, "read_vocabulary", VOCABULARY)

    def call(*arguments, out="out"):
        workers = [] if {"--workers", "--dask"} & set(arguments) else ["--workers", "1"]
        code = encode_corpus.main([*map(str, arguments), "--out", str(tmp_path / out), *workers])
        return code, capsys.readouterr().err

    return call


def expected(documents):
    """What nanoGPT's prepare.py would make of documents."""
    encoding = bpe.get_encoding("gpt2")
    return [id for text in documents for id in [*encoding.encode_ordinary(text), EOT]]


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def ids(path):
    return np.memmap(path, "uint16", "r").tolist()


# -- formats


def test_a_folder_becomes_what_nanogpt_reads(corpus, encode, tmp_path):
    folder, documents = corpus
    assert encode(folder) == (0, "")
    assert ids(tmp_path / "out" / "train.bin") == expected(documents)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    train = manifest["splits"]["train"]
    assert (train["tokens"], train["documents"]) == (len(expected(documents)), len(documents))
    assert manifest["inputs"][0] == {"path": f"{folder.as_posix()}/00.txt", "bytes": (folder / "00.txt").stat().st_size}
    assert sorted(contents(tmp_path / "out")) == ["manifest.json", "train.bin"]


def test_shards_have_the_number_of_tokens_asked_for(corpus, encode, tmp_path):
    folder, documents = corpus
    assert encode(folder, "--format", "llmc", "--shard-tokens", "1000", "--eot", "start")[0] == 0
    paths = sorted((tmp_path / "out").glob("train_*.bin"))
    shards = [token_file(path) for path in paths]
    together = np.concatenate(shards).tolist()
    assert {len(shard) for shard in shards[:-1]} == {1000} and 0 < len(shards[-1]) <= 1000
    assert together == [EOT, *expected(documents)[:-1]]  # the same ids, but that each <|endoftext|> comes before
    header = np.fromfile(paths[0], "<i4", 256)
    assert header[:3].tolist() == [20240520, 1, 1000] and not header[3:].any()
    assert paths[0].stat().st_size == 1024 + 2 * 1000
    assert len(SlidingWindows(paths[0], 8)) == 124
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [shard["sha256"] for shard in manifest["splits"]["train"]["shards"]] == [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]


def test_the_validation_documents_are_the_same_whatever_file_they_are_in(corpus, encode, tmp_path):
    folder, documents = corpus
    assert encode(folder, "--val-fraction", "0.3")[0] == 0
    with open(tmp_path / "all.jsonl", "w") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in documents)
    assert encode(tmp_path / "all.jsonl", "--val-fraction", "0.3", out="again")[0] == 0
    one, other = contents(tmp_path / "out"), contents(tmp_path / "again")
    assert one["train.bin"] == other["train.bin"] and one["val.bin"] == other["val.bin"]
    assert 0 < len(one["val.bin"]) < len(one["train.bin"])


# -- inputs


def packed(path, data):
    if path.suffix == ".gz":
        data = gzip.compress(data[: len(data) // 2]) + gzip.compress(data[len(data) // 2 :])  # two members
    elif path.suffix == ".zst":
        zstandard = pytest.importorskip("zstandard")
        data = zstandard.compress(data[: len(data) // 2]) + zstandard.compress(data[len(data) // 2 :])
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst"])
@pytest.mark.parametrize("how", ["file", "line", "separator", "overlapping"])
def test_text_gives_the_same_documents_packed_or_not(encode, tmp_path, name, how):
    draw = random.Random(1)
    joint = {"file": "", "line": "\n", "separator": "\n--\n", "overlapping": "\n\n"}[how]
    text = joint.join(document(draw, 40) for _ in range(30)) + "\n\n\n"
    packed(tmp_path / name, text.encode())
    documents = {"file": [text], "line": text.split("\n")[:-1]}.get(how) or text.split(joint)
    options = {"file": [], "line": ["--documents", "line"]}.get(how, ["--separator", joint.replace("\n", r"\n")])
    assert encode(tmp_path / name, *options) == (0, "")
    assert ids(tmp_path / "out" / "train.bin") == expected(documents)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"])
def test_a_document_is_a_field_of_a_line_of_json(encode, tmp_path, name):
    draw = random.Random(2)
    documents = [document(draw, 20) for _ in range(40)]
    packed(tmp_path / name, "".join(json.dumps({"id": 1, "body": text}) + "\n" for text in documents).encode())
    assert encode(tmp_path / name, "--field", "body") == (0, "")
    assert ids(tmp_path / "out" / "train.bin") == expected(documents)


def test_standard_input_can_be_a_corpus_and_be_resumed_if_it_is_the_same(encode, tmp_path, monkeypatch):
    draw = random.Random(3)
    text = "\n".join(document(draw, 10).replace("\n", "") for _ in range(200))
    stdin = lambda text: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    stdin(text)
    dying(encode, monkeypatch, 14, "-", "--documents", "line")
    stdin("X" + text[1:])
    code, said = encode("-", "--documents", "line", "--resume")
    assert code == 1 and "bytes of standard input are not those of the run to resume" in said
    stdin(text)
    assert encode("-", "--documents", "line", "--resume")[0] == 0
    assert ids(tmp_path / "out" / "train.bin") == expected(text.split("\n"))


def test_a_closed_standard_input_is_an_input_that_cannot_be_read(encode, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    code, said = encode("-")
    assert code == 1 and "standard input is closed" in said


def test_an_address_whose_package_is_missing_is_told_in_a_line(encode):
    fsspec = pytest.importorskip("fsspec")
    fsspec.register_implementation("faraway", "no_such_package.FileSystem", errtxt="Install faraway to reach it")
    code, said = encode("faraway://bucket/texts")
    assert (code, said) == (1, "encode_corpus.py: faraway://bucket/texts: Install faraway to reach it\n")


def test_addresses_are_read_through_fsspec(corpus, encode, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    folder, documents = corpus
    memory = fsspec.filesystem("memory")
    memory.pipe({f"/texts/{path.name}": path.read_bytes() for path in folder.glob("*.txt")})
    try:
        assert encode("memory://texts", out="memory") == (0, "")
        assert encode("memory://texts/*.txt", out="pattern") == (0, "")
        assert encode(f"file://{folder.as_posix()}", out="file") == (0, "")
    finally:
        memory.rm("/texts", recursive=True)
    assert ids(tmp_path / "memory" / "train.bin") == ids(tmp_path / "pattern" / "train.bin") == expected(documents[:-1])
    assert ids(tmp_path / "file" / "train.bin") == expected(documents)


def test_what_cannot_be_read_is_listed_at_the_end(corpus, encode, tmp_path):
    folder, documents = corpus
    (folder / "98.txt.gz").write_bytes(gzip.compress(random.Random(0).randbytes(3000).hex().encode())[:1500])
    (folder / "99.txt").symlink_to("nowhere")
    arguments = [folder, tmp_path / "missing.txt", tmp_path / "*.none"]
    code, said = encode(*arguments)
    assert code == 1
    assert [line.split(": ")[3] for line in said.splitlines()][1:] == ["No such file or directory"] * 2 + ["no file there"]
    assert "98.txt.gz: broken off after" in said
    assert encode(*arguments, "--keep-going", out="again") == (0, said)
    written = ids(tmp_path / "out" / "train.bin")
    before = expected(documents[:-1])
    assert written[: len(before)] == before and written[-len(expected(["last\n"])) :] == expected(["last\n"])
    assert [*json.loads((tmp_path / "out" / "manifest.json").read_text())["failed"]] == [str(path) for path in (folder / "98.txt.gz", folder / "99.txt", *arguments[1:])]


def test_of_a_packed_file_that_breaks_off_the_documents_before_are_kept(encode, tmp_path):
    lines = [json.dumps({"text": f"document {i} {random.Random(i).random()}"}) for i in range(200)]
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode())[:-600])
    code, said = encode(tmp_path / "a.jsonl.gz")
    assert code == 1 and "broken off after" in said
    written = ids(tmp_path / "out" / "train.bin")
    assert 50 < written.count(EOT) < 200
    assert written == expected([json.loads(line)["text"] for line in lines[: written.count(EOT)]])


def test_bad_bytes_stop_the_run_which_can_go_on_with_them_replaced(corpus, encode, tmp_path):
    folder, documents = corpus
    good = (folder / "20.txt").read_bytes()
    (folder / "20.txt").write_bytes(good[:5000] + b"\xff" + good[5000:])
    code, said = encode(folder)
    assert code == 1 and f"{folder}/20.txt: byte 5,000 (0xff) is not UTF-8" in said and said.count("\n") == 1
    assert encode(folder, "--resume", "--errors", "replace") == (0, "")
    assert encode(folder, "--errors", "replace", out="again") == (0, "")
    assert contents(tmp_path / "out") == contents(tmp_path / "again")


# -- who does the work


def test_three_processes_write_the_bytes_of_one(corpus, encode, tmp_path):
    folder, _ = corpus
    options = ["--val-fraction", "0.2", "--shard-tokens", "700"]
    assert encode(folder, *options) == (0, "")
    assert encode(folder, *options, "--workers", "3", out="three") == (0, "")
    assert contents(tmp_path / "out") == contents(tmp_path / "three")


@pytest.mark.parametrize("room", [1, 20, 10_000])
def test_ids_come_back_from_workers_whatever_room_there_is_for_them(room, monkeypatch):
    monkeypatch.setattr(executors, "TRAY", room)
    encoder = CorpusEncoder(bpe.get_encoding("gpt2"), Settings(val_fraction=0.4))
    texts = [" ".join(map(str, range(i, i + 8))).replace(" 2", "\n2").encode() for i in range(0, 90, 3)]
    work = [Task((Span("-", "line", 0, len(text), len(text), data=text),), len(text)) for text in texts]
    alone = [([ids.tolist() for ids in encoded.ids], encoded[1:]) for _, encoded in executors.in_this_process(encoder, work)]
    found = [([ids.tolist() for ids in encoded.ids], encoded[1:]) for _, encoded in executors.in_processes(encoder, work, 2)]
    assert found == alone
    assert all(any(ids[i] for ids, _ in alone) for i in (0, 1))


def test_no_worker_stays_when_all_is_done():
    others = set(multiprocessing.active_children())  # of the test before, which may still be ending
    encoder = CorpusEncoder(bpe.get_encoding("gpt2"), Settings())
    work = [Task((Span("-", "line", 0, 2, 2, data=b"%d\n" % i),), 2) for i in range(3)]
    begun = executors.in_processes(encoder, work, 2)
    next(begun)
    assert len(set(multiprocessing.active_children()) - others) == 2
    assert len(list(begun)) == 2
    for _ in range(500):
        if multiprocessing.active_children():
            time.sleep(0.01)
    assert not multiprocessing.active_children()


class DiesOnce(CorpusEncoder):
    """Dies in the middle of a task, if nobody did before."""

    def encode(self, task):
        if self.marker in task[0].path:
            try:
                Path(task[0].path).touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().encode([span._replace(path="") for span in task])


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_process_that_dies_costs_a_second_try(tmp_path):
    encoder = DiesOnce(bpe.get_encoding("gpt2"), Settings())
    encoder.marker = "died"
    work = [
        Task((Span(str(tmp_path / ("died" if i == 3 else "well")), "line", 0, 2, 2, data=b"%d\n" % i),), 2) for i in range(9)
    ]
    results = [encoded.ids[0].tolist() for _, encoded in executors.in_processes(encoder, work, 2)]
    assert (tmp_path / "died").exists()
    assert results == [expected([str(i)]) for i in range(9)]


class DiesOrIsLate(CorpusEncoder):
    """Dies at the second task, and at the sixth is late, if nobody was before."""

    def encode(self, task):
        number, late = int(task[0].data), self.folder / "late"
        if number == 1 and not (self.folder / "died").exists():
            (self.folder / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 5 and not late.exists():
            late.touch()
            wait_for(self.folder / "later")
        return super().encode(task)


def wait_for(path):
    """Wait until the file is there, a second at most."""
    for _ in range(100):
        if not path.exists():
            time.sleep(0.01)


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_worker_that_is_late_with_a_task_given_to_another_does_not_write_over_what_came_since(tmp_path):
    encoder = DiesOrIsLate(bpe.get_encoding("gpt2"), Settings())
    encoder.folder = tmp_path
    work = [Task((Span("-", "line", 0, 6, 6, data=b"%d\n" % i),), 6) for i in range(14)]
    results = []
    for _, encoded in executors.in_processes(encoder, work, 2):
        if len(results) == 0:
            wait_for(tmp_path / "died")
            time.sleep(0.3)  # until it is known that the worker died: the next task is given to a new one then
        if len(results) == 6:
            (tmp_path / "later").touch()
            time.sleep(0.3)
        results.append(encoded.ids[0].tolist())
    assert results == [expected([str(i)]) for i in range(14)]


def test_a_task_whose_worker_always_dies_is_given_up(tmp_path):
    class Lost(Exception):
        pass

    def result(_):
        raise Lost

    with pytest.raises(executors.Died, match="a worker died 3 times, the last time at one"):
        next(executors.in_order(["one"], lambda task: task, result, 2, Lost))


KILL = """
import os, pathlib, signal
import bpe.corpus
encode = bpe.corpus.CorpusEncoder.encode
def dying(self, task):
    pathlib.Path({marker!r}).write_text(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGKILL)
bpe.corpus.CorpusEncoder.encode = dying
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_dask_worker_that_is_killed_in_its_task_costs_a_second_try(corpus, encode, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    folder, _ = corpus
    options = ["--val-fraction", "0.2", "--shard-tokens", "700"]
    assert encode(folder, *options) == (0, "")
    root = str(SCRIPT.parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))
    marker = tmp_path / "killed"
    cluster = distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address=":0", host="127.0.0.1"
    )
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        pids = client.run(os.getpid)
        first = next(iter(pids))
        client.run(exec, KILL.format(marker=str(marker)), {}, workers=[first])
        assert encode(folder, *options, "--dask", cluster.scheduler_address, out="dask")[0] == 0
    assert int(marker.read_text()) == pids[first]
    assert contents(tmp_path / "out") == contents(tmp_path / "dask")


# -- interruptions


class Killed(BaseException):
    """As if the process had been killed: nobody catches it."""


def dying(encode, monkeypatch, after, *arguments):
    """Encode, and die at the n-th call that changes what is on disk."""
    calls = iter(range(after))

    def until(function):
        def call(*args, **options):
            if next(calls, None) is None:
                raise Killed
            return function(*args, **options)

        return call

    with monkeypatch.context() as patch:
        for name in ("replace", "fsync"):
            patch.setattr(os, name, until(getattr(os, name)))
        patch.setattr(output.Shards, "_write", until(output.Shards._write))
        with pytest.raises(Killed):
            encode(*arguments)


@pytest.mark.parametrize("options", [["--shard-tokens", "300", "--format", "llmc"], []], ids=["shards", "one file"])
def test_killed_twenty_times_and_resumed_it_is_byte_identical(corpus, encode, tmp_path, monkeypatch, options):
    arguments = [corpus[0], "--val-fraction", "0.2", *options]
    assert encode(*arguments) == (0, "")
    draw = random.Random(20)
    kills = 0
    for attempt in range(100):
        try:
            dying_run = lambda *a: encode(*a, out="killed")
            dying(dying_run, monkeypatch, draw.randrange(1, 10), *arguments, *(["--resume"] if attempt else []))
            kills += 1
        except pytest.fail.Exception:  # it came to its end
            break
        if kills == 20:
            assert encode(*arguments, "--resume", out="killed") == (0, "")
            break
    assert kills == 20
    assert contents(tmp_path / "out") == contents(tmp_path / "killed")


KILLED_AT = """
import os, signal, sys
sys.path[:0] = {paths!r}
import encode_corpus
from corpus import output, tasks
tasks.TASK_BYTES, output.EVERY = 500, 2
replace, calls = os.replace, iter(range({after}))
def until(*args):
    if next(calls, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*args)
os.replace = until
sys.exit(encode_corpus.main(sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_process_that_is_killed_can_be_resumed(corpus, encode, tmp_path):
    arguments = [corpus[0], "--val-fraction", "0.2", "--shard-tokens", "700"]
    assert encode(*arguments) == (0, "")
    paths = [str(SCRIPT.parent), str(SCRIPT.parents[1])]
    for after in (7, 11):
        command = [sys.executable, "-c", KILLED_AT.format(paths=paths, after=after), *map(str, arguments)]
        ended = subprocess.run([*command, "--out", str(tmp_path / "killed"), "--workers", "1", "--resume"], capture_output=True)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert encode(*arguments, "--resume", out="killed") == (0, "")
    assert contents(tmp_path / "out") == contents(tmp_path / "killed")


def test_a_full_disk_is_told_in_one_line_and_can_be_resumed(corpus, encode, tmp_path, monkeypatch):
    assert encode(corpus[0]) == (0, "")

    class Full(io.FileIO):
        room = 3001

        def write(self, data):
            if not Full.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written = super().write(bytes(data)[: Full.room])  # as a real one: what there is room for, then the error
            Full.room -= written
            return written

    with monkeypatch.context() as patch:
        patch.setattr(output.io, "FileIO", Full)
        code, said = encode(corpus[0], out="full")
    assert (code, said) == (1, f"encode_corpus.py: {tmp_path}/full/train.bin.partial: {os.strerror(errno.ENOSPC)}; --resume goes on\n")
    assert encode(corpus[0], "--resume", out="full") == (0, "")
    assert contents(tmp_path / "out") == contents(tmp_path / "full")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="nothing stands for a full disk here")
def test_a_full_disk_of_standard_output_is_not_taken_for_that_of_the_corpus(corpus, tmp_path):
    command = [sys.executable, "-u", str(SCRIPT), str(corpus[0]), "--out", str(tmp_path / "out")]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, f"encode_corpus.py: standard output: {os.strerror(errno.ENOSPC)}\n")
    assert (tmp_path / "out" / "manifest.json").exists()


def test_ctrl_c_leaves_a_run_that_can_go_on(corpus, encode, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(output.Output, "add", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert encode(corpus[0]) == (130, "encode_corpus.py: interrupted; --resume goes on\n")
    assert encode(corpus[0], "--resume") == (0, "")


def test_ctrl_c_again_while_the_workers_end_is_not_heard(corpus, encode, monkeypatch):
    Pool = executors.concurrent.futures.ProcessPoolExecutor
    shutdown = Pool.shutdown

    def pressed_again(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        shutdown(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(output.Output, "add", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        patch.setattr(Pool, "shutdown", pressed_again)
        assert encode(corpus[0], "--workers", "2") == (130, "encode_corpus.py: interrupted; --resume goes on\n")
    with pytest.raises(KeyboardInterrupt):  # it is heard as before
        signal.raise_signal(signal.SIGINT)
    assert encode(corpus[0], "--resume") == (0, "")


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Ctrl-C cannot be held back here")
def test_ctrl_c_while_the_workers_begin_waits_until_they_have(corpus, encode, monkeypatch):
    start, begun = multiprocessing.process.BaseProcess.start, []

    def pressed_before(process):
        signal.raise_signal(signal.SIGINT)
        start(process)
        begun.append(process)

    with monkeypatch.context() as patch:
        patch.setattr(multiprocessing.process.BaseProcess, "start", pressed_before)
        assert encode(corpus[0], "--workers", "2") == (130, "encode_corpus.py: interrupted; --resume goes on\n")
    assert len(begun) == 2
    assert encode(corpus[0], out="other") == (0, "")


@pytest.mark.parametrize(
    ("name", "damaged", "why"),
    [
        ("progress.json", "{}", "it has no 'tasks'"),
        ("progress.json", "[]", "it is of type list, where dict should be"),
        ("progress.json", ("tasks", "x"), "tasks is of type str, where int should be"),
        ("progress.json", ("tasks", -1), "tasks is -1, where 0 or more should be"),
        ("progress.json", ("tasks", 99), "99 tasks are done, and there are 36"),
        ("progress.json", ("splits", {}), "splits has no 'train'"),
        ("plan.json", "{}", "it has no 'settings'"),
        ("plan.json", None, "it is not there"),
        ("manifest.json", "{}", "it has no 'settings'"),
    ],
)
def test_a_damaged_record_is_refused_by_its_name_and_nothing_is_touched(corpus, encode, tmp_path, monkeypatch, name, damaged, why):
    out = tmp_path / "out"
    dying(encode, monkeypatch, 12, corpus[0])
    if isinstance(damaged, tuple):
        damaged = json.dumps(json.loads((out / name).read_text()) | dict([damaged]))
    if damaged is None:
        (out / name).unlink()
    else:
        (out / name).write_text(damaged)
    before = contents(out)
    assert encode(corpus[0], "--resume") == (1, f"encode_corpus.py: {out / name} is damaged: {why}\n")
    assert contents(out) == before


@pytest.mark.parametrize("address", ["junk", "foo://x:1", "tcp://127.0.0.1:x"])
def test_an_address_that_is_none_is_refused_at_once(corpus, encode, address):
    pytest.importorskip("distributed")
    code, said = encode(corpus[0], "--dask", address)
    assert code == 1 and f"--dask {address}: " in said and "an address is like tcp://scheduler:8786" in said


def test_an_empty_input_or_address_is_wrong_usage(encode, corpus):
    for arguments in ([""], [corpus[0], "--dask", ""]):
        with pytest.raises(SystemExit, match="2"):
            encode(*arguments)


def test_a_cluster_that_is_not_there_leaves_nothing_behind(corpus, encode, tmp_path):
    pytest.importorskip("distributed")
    with pytest.importorskip("dask").config.set({"distributed.comm.timeouts.connect": "1s"}):
        code, said = encode(corpus[0], "--dask", "tcp://127.0.0.1:9")
    assert code == 1 and "127.0.0.1:9" in said and "--resume" not in said
    assert contents(tmp_path / "out") == {}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_in_a_folder_is_not_waited_for_and_standard_input_is_named(corpus, encode):
    os.mkfifo(corpus[0] / "pipe.txt")
    code, said = encode(corpus[0])
    assert code == 1 and said.count("not read") == 1
    assert "pipe.txt: not a file: the text of a pipe or device is read from -" in said


@pytest.mark.parametrize("spelled", ["{folder}/00.txt", "{folder}/inner/../00.txt", "file://{folder}/00.txt"])
def test_a_file_is_not_taken_twice_by_the_same_or_another_path_to_it(corpus, encode, spelled):
    if "://" in spelled:
        pytest.importorskip("fsspec")
    code, said = encode(corpus[0] / "00.txt", spelled.format(folder=corpus[0]))
    assert code == 1 and "00.txt is named twice" in said


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (None, ["--eot", "start"], "eot is 'start', but the run in {out} began with 'end'"),
        (None, ["--shard-tokens", "9"], "shard_tokens is 9, but the run in {out} began with 0"),
        ("00.txt", [], "{folder}/00.txt is not the file it was when the run in {out} began"),
        ("ZZ.txt", [], "{folder}/ZZ.txt is new or gone when the run in {out} began"),
    ],
)
def test_a_run_is_not_resumed_with_other_settings_or_inputs(corpus, encode, tmp_path, monkeypatch, change, options, message):
    folder, out = corpus[0], tmp_path / "out"
    dying(encode, monkeypatch, 12, folder)
    if change:
        (folder / change).write_text("changed")
    code, said = encode(folder, "--resume", *options)
    assert code == 1 and message.format(folder=folder, out=out) in said


def test_a_finished_corpus_is_not_begun_again(corpus, encode, tmp_path):
    assert encode(corpus[0])[0] == 0
    before = contents(tmp_path / "out")
    code, said = encode(corpus[0])
    assert code == 1 and "holds a corpus: --resume goes on with it, another --out begins another" in said
    assert encode(corpus[0], "--resume") == (0, "")  # there is nothing to do
    code, said = encode(corpus[0] / "00.txt", "--resume")
    assert code == 1 and "is new or gone when the run in" in said
    with open(corpus[0] / "00.txt", "a") as file:
        file.write("more")
    code, said = encode(corpus[0], "--resume")
    assert code == 1 and "00.txt is not the file it was when the run in" in said
    assert contents(tmp_path / "out") == before


def test_what_was_gone_on_with_as_replace_is_not_strict_again(corpus, encode, tmp_path, monkeypatch):
    dying(encode, monkeypatch, 12, corpus[0])
    dying(encode, monkeypatch, 9, corpus[0], "--errors", "replace", "--resume")
    code, said = encode(corpus[0], "--resume")
    assert code == 1 and "errors is 'strict', but the run in" in said and "began with 'replace'" in said
    assert encode(corpus[0], "--errors", "replace", "--resume") == (0, "")


def test_a_shard_that_has_gone_since_is_told(corpus, encode, tmp_path):
    assert encode(corpus[0])[0] == 0
    (tmp_path / "out" / "train.bin").unlink()
    code, said = encode(corpus[0], "--resume")
    assert code == 1 and "train.bin has 0 bytes, where manifest.json says " in said
    (tmp_path / "out" / "manifest.json").write_text('{"settings": {}, "inputs": [], "failed": {}, "splits": {'
        '"train": {"tokens": 1, "documents": 1, "shards": [{}]}, "val": {"tokens": 0, "documents": 0, "shards": []}}}')
    code, said = encode(corpus[0], "--resume")
    assert code == 1 and "manifest.json is damaged: a part of splits: train: shards has no 'file'" in said


def test_half_a_pair_of_surrogates_is_no_character_when_strict(tmp_path, encode):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "one"}\n{"text": "a\\ud800b \\ud83d\\ude00"}\n')
    code, said = encode(path)
    assert code == 1 and "a.jsonl, the line at byte 16" in said and r"'\ud800' is half of a character" in said
    assert encode(path, "--errors", "replace", "--resume") == (0, "")
    assert ids(tmp_path / "out" / "train.bin") == expected(["one", "a\ufffdb \U0001f600"])


def test_what_replaced_bad_bytes_is_not_taken_for_strict(tmp_path, encode):
    (tmp_path / "bad.txt").write_bytes(b"one \xff two")
    assert encode(tmp_path / "bad.txt", "--errors", "replace")[0] == 0
    code, said = encode(tmp_path / "bad.txt", "--resume")
    assert code == 1 and "errors is 'strict', but the run in" in said and "began with 'replace'" in said


# -- the command line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--val-fraction", "1"], "--val-fraction is 1.0: it must be from 0 to below 1"),
        (["--workers", "0"], "--workers is 0: at least 1 is needed"),
        (["--shard-tokens", "2147483648", "--format", "llmc"], "it must be from 1 to 2,147,483,647"),
        (["--shard-tokens", "0"], "--shard-tokens is 0: it must be from 1"),
        (["--separator", "x", "--documents", "line"], "both say what a document is"),
        (["--separator", ""], "--separator is empty"),
        (["--separator", r"a\x"], r"--separator a\x: \x stands for nothing; \n, \r, \t and \\ do"),
        (["--separator", "a" + chr(92)], "stands for nothing"),
        (["--separator", "\udcff"], "is not UTF-8"),
        (["--out", ""], "--out: the path is empty"),
    ],
)
def test_wrong_usage_is_told(options, message, capsys):
    with pytest.raises(SystemExit) as ended:
        encode_corpus.main(["a.txt", "--out", "never", *options])
    assert ended.value.code == 2 and message in capsys.readouterr().err


def test_llmc_cannot_count_more_than_its_header_holds(corpus, encode, monkeypatch):
    monkeypatch.setattr(output, "LLMC_MOST", 1000)
    code, said = encode(corpus[0], "--format", "llmc")
    assert code == 1 and "llm.c's header counts no more than 1,000 ids; give --shard-tokens" in said


def test_inputs_without_a_document_are_refused(encode, tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    code, said = encode(tmp_path / "empty.jsonl")
    assert code == 1 and "there is no document in what could be read" in said


def test_progress_is_told_on_a_terminal(corpus, encode, tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for module in ("there", None):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(encode_corpus.Progress, "EVERY", 0)
        if not module:
            monkeypatch.setitem(sys.modules, "tqdm", None)
        assert encode(corpus[0], out=f"out-{module}")[0] == 0
        assert "B/s" in terminal.getvalue()


def test_a_token_file_of_another_run_is_not_written_over(encode, corpus, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "train.bin").write_bytes(b"days of work")
    code, said = encode(corpus[0])
    assert code == 1 and "holds train.bin, which is not of this run: it would be written over" in said
    assert contents(tmp_path / "out") == {"train.bin": b"days of work"}
