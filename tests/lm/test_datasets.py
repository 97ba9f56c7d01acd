"""Corpora become shards that hold their text and nothing else; downloads continue, are verified, and say what to do offline."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets import corpora, prepare
from datasets.corpora import CORPORA, Source
from datasets.download import Unreachable, download
from datasets.encodings import gpt2_encoding, load_encoding, save_encoding, train_encoding
from lm.loader import Shard

TEXT = b"".join(b"line %d of a text that is downloaded in pieces\n" % i for i in range(2000))
ENCODING = train_encoding(corpora.generated([]), vocab_size=300, name="trained")


def manifest_of(folder: Path) -> Any:
    """The manifest that prepare wrote."""
    return json.loads((folder / "manifest.json").read_text())


def decoded(folder: Path, part: str, encoding: tiktoken.Encoding) -> list[str]:
    """The documents of a part, read back from its shards."""
    tokens = [token for path in sorted(folder.glob(f"{part}_*.tokens")) for token in Shard.open(path).tokens.tolist()]
    return encoding.decode(tokens).split("<|endoftext|>")[:-1]


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_any_text_comes_back_from_its_tokens(text: str) -> None:
    """A byte-level encoding knows no unknown character: emoji, other scripts and control characters, seen in training or not."""
    tokens = ENCODING.encode_ordinary(text)
    assert ENCODING.decode(tokens) == text
    assert all(0 <= token < ENCODING.eot_token for token in tokens)


def test_the_encoding_merges_what_is_frequent() -> None:
    """Text like the corpus takes far fewer tokens than bytes; the vocabulary is as large as asked, its last token the end of text."""
    text = next(corpora.generated([], seed=1))
    assert len(ENCODING.encode_ordinary(text)) < len(text) / 2
    assert ENCODING.n_vocab == 300
    assert ENCODING.encode("<|endoftext|>", allowed_special="all") == [299]


def test_training_the_encoding_again_gives_the_same_one(tmp_path: Path) -> None:
    """The same text makes the same merges in the same order, and a kept encoding loads as it was."""
    again = train_encoding(corpora.generated([]), vocab_size=300, name="trained")
    save_encoding(ENCODING, tmp_path / "a.json")
    save_encoding(again, tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    text = next(corpora.generated([], seed=1))
    assert load_encoding(tmp_path / "a.json").encode_ordinary(text) == ENCODING.encode_ordinary(text)


def test_a_vocabulary_smaller_than_the_bytes_is_refused() -> None:
    """Below 257 there would be bytes without a token."""
    with pytest.raises(ValueError, match="at least 257, not 200"):
        train_encoding(["text"], vocab_size=200, name="small")


def test_files_that_are_not_gpt2s_are_refused(tmp_path: Path) -> None:
    """GPT-2's encoding from local files is checked against the published sums; a missing one is named."""
    with pytest.raises(FileNotFoundError, match=r"vocab.bpe is missing"):
        gpt2_encoding(tmp_path)
    (tmp_path / "vocab.bpe").write_text("#version: 0.2\na b\n")
    (tmp_path / "encoder.json").write_text("{}")
    with pytest.raises(ValueError, match="Hash mismatch"):
        gpt2_encoding(tmp_path)


def test_shards_hold_every_document_once_and_nothing_else(generated_tokens: Path) -> None:
    """Decoding the shards gives the corpus back: every twentieth document in valid, the others in train, in their order."""
    encoding = load_encoding(generated_tokens / "encoding.json")
    documents = list(corpora.generated([]))
    valid = documents[19::20]
    assert decoded(generated_tokens, "valid", encoding) == valid
    assert decoded(generated_tokens, "train", encoding) == [text for i, text in enumerate(documents, start=1) if i % 20]


def test_the_manifest_tells_source_licence_and_sums(generated_tokens: Path) -> None:
    """Each shard's sum and size in the manifest are those of the file; the licence and the text's own sum are there."""
    manifest = manifest_of(generated_tokens)
    assert manifest["licence"] == "CC0-1.0"
    assert manifest["text_sha256"] == sha256("".join(corpora.generated([])).encode()).hexdigest()
    for part in manifest["parts"].values():
        for shard in part["shards"]:
            path = generated_tokens / shard["file"]
            assert shard["sha256"] == sha256(path.read_bytes()).hexdigest()
            assert shard["num_tokens"] == len(Shard.open(path).tokens)


def test_a_single_text_is_cut_at_a_line_and_given_by_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One file has its last twentieth for validation, cut after a line; not a character is lost, and many small shards are one text."""
    source = tmp_path / "mine.txt"
    source.write_bytes(TEXT)
    flags = ["text", "--from", str(source), "--out", str(tmp_path / "out"), "--vocabulary", "300", "--shard-tokens", "1000"]
    prepare.main(flags)
    encoding = load_encoding(tmp_path / "out" / "encoding.json")
    train, valid = (decoded(tmp_path / "out", part, encoding)[0] for part in ("train", "valid"))
    assert (train + valid).encode() == TEXT
    assert train.endswith("\n")
    assert len(valid) / len(TEXT) == pytest.approx(1 / 20, rel=0.05)
    assert manifest_of(tmp_path / "out")["sources"] == [{"file": "mine.txt", "sha256": sha256(TEXT).hexdigest()}]
    assert "yours to know" in capsys.readouterr().out


def test_preparing_twice_does_the_work_once(tmp_path: Path) -> None:
    """The same request finds its shards; --verify notices a changed one, and another request replaces them all."""
    flags = ["generated", "--vocabulary", "300", "--out", str(tmp_path)]
    prepare.main(flags)
    shard = tmp_path / "train_00000.tokens"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # one bit
    prepare.main(flags)
    assert shard.read_bytes() != whole
    prepare.main([*flags, "--verify"])
    assert shard.read_bytes() == whole
    prepare.main(["generated", "--vocabulary", "280", "--out", str(tmp_path)])
    assert Shard.open(shard).vocab_size == 280


def test_preparing_that_was_interrupted_starts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest is written last: shards without one are not taken for a whole corpus."""
    flags = ["generated", "--vocabulary", "300", "--out", str(tmp_path)]
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(prepare.ShardWriter, "flush", lambda writer: (_ for _ in ()).throw(KeyboardInterrupt))
        prepare.main(flags)
    assert not (tmp_path / "manifest.json").exists()
    prepare.main(flags)
    assert manifest_of(tmp_path)["parts"]["train"]["num_tokens"] > 0


def test_stories_end_where_their_line_says(tmp_path: Path) -> None:
    """The marker between stories is no part of them, and the last one needs none."""
    (tmp_path / "s.txt").write_text("One day.\nIt rained.\n<|endoftext|>\nThe end\n<|endoftext|>\n\nAnother\n")
    assert list(corpora.stories([tmp_path / "s.txt"])) == ["One day.\nIt rained.\n", "The end\n", "\nAnother\n"]


@dataclass
class Server:
    """A local server of TEXT that may break off: after how many bytes it ends each answer, and what it was asked for."""

    url: str = ""
    break_after_bytes: list[int] = field(default_factory=list)
    ranges: list[str | None] = field(default_factory=list)
    knows_ranges: bool = True


@pytest.fixture
def server() -> Iterator[Server]:
    """Serve TEXT on a free port of this machine."""
    state = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            state.ranges.append(asked)
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and state.knows_ranges else 0
            if start >= len(TEXT):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(TEXT) - start))
            self.end_headers()
            end = start + state.break_after_bytes.pop(0) if state.break_after_bytes else len(TEXT)
            self.wfile.write(TEXT[start:end])

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        state.url = f"http://127.0.0.1:{httpd.server_port}/input.txt"
        yield state
        httpd.shutdown()


def test_an_interrupted_download_goes_on_where_it_stopped(server: Server, tmp_path: Path) -> None:
    """Two connections that break cost two more requests, each for what is missing; the whole is verified and gets its name last."""
    server.break_after_bytes = [10_000, 20_000]
    assert download(server.url, tmp_path / "input.txt", sha256(TEXT).hexdigest()) == sha256(TEXT).hexdigest()
    assert server.ranges == [None, "bytes=10000-", "bytes=30000-"]
    assert [path.name for path in tmp_path.iterdir()] == ["input.txt"]


def test_a_partial_file_of_an_earlier_run_is_used(server: Server, tmp_path: Path) -> None:
    """What an earlier run left is continued, also if all of it had arrived; a server without ranges sends it all again, once."""
    partial = tmp_path / "input.txt.partial"
    for arrived_bytes, knows_ranges in ((500, True), (len(TEXT), True), (500, False)):
        partial.write_bytes(TEXT[:arrived_bytes])
        server.knows_ranges = knows_ranges
        download(server.url, tmp_path / "input.txt", None)
        assert (tmp_path / "input.txt").read_bytes() == TEXT
        (tmp_path / "input.txt").unlink()
    assert server.ranges == ["bytes=500-", f"bytes={len(TEXT)}-", "bytes=500-"]


def test_wrong_bytes_never_get_the_files_name(server: Server, tmp_path: Path) -> None:
    """Another sum than expected: both are named, and neither the file nor the part stays to be continued."""
    with pytest.raises(ValueError, match=f"has sha256 {sha256(TEXT).hexdigest()}, expected 0000"):
        download(server.url, tmp_path / "input.txt", "0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_a_download_that_keeps_breaking_ends_and_keeps_what_arrived(server: Server, tmp_path: Path) -> None:
    """After a few attempts the reason is told, and the next call goes on from what is there."""
    server.break_after_bytes = [1000] * 4
    with pytest.raises(Unreachable, match="the connection ended after 4,000 of"):
        download(server.url, tmp_path / "input.txt", None)
    assert (tmp_path / "input.txt.partial").stat().st_size == 4000


def with_source(monkeypatch: pytest.MonkeyPatch, url: str, sum_of_it: str | None) -> None:
    """Let tiny_shakespeare come from another address."""
    corpus = replace(CORPORA["tiny_shakespeare"], sources=(Source(url, sum_of_it),))
    monkeypatch.setitem(CORPORA, "tiny_shakespeare", corpus)


def test_a_named_corpus_is_downloaded_once_and_held_to_its_first_sum(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A source whose sum was not known is noted at the first download; other bytes at the same address are then refused."""
    with_source(monkeypatch, server.url, None)
    flags = ["tiny_shakespeare", "--vocabulary", "300", "--out", str(tmp_path)]
    prepare.main(flags)
    assert manifest_of(tmp_path)["sources"] == [{"url": server.url, "sha256": sha256(TEXT).hexdigest()}]
    (tmp_path / "downloads" / "input.txt").write_bytes(TEXT[:-1])
    with pytest.raises(SystemExit) as stopped:
        prepare.main([*flags, "--vocabulary", "290"])
    assert stopped.value.code == 2
    assert f"expected {sha256(TEXT).hexdigest()}" in capsys.readouterr().err
    assert len(server.ranges) == 1


def test_offline_it_says_what_works_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a connection: the host, the reason, --from, and the corpus that needs no network; status 2."""
    with_source(monkeypatch, "http://name-that-does-not-exist.invalid/input.txt", None)
    with pytest.raises(SystemExit) as stopped:
        prepare.main(["tiny_shakespeare", "--out", str(tmp_path)])
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    for word in ("name-that-does-not-exist.invalid did not give input.txt", "--from PATH", "stdlib, which needs none"):
        assert word in said


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["text"], "say where by --from"),
        (["text", "--from", "nowhere.txt"], "nowhere.txt holds no text"),
        (["tiny_shakespeare", "--from", __file__], "expected 86c4e6aa9db7c042"),
        (["generated", "--vocabulary", "10"], "at least 257, not 10"),
        (["generated", "--encoding", __file__], "is not an encoding that datasets.prepare wrote"),
    ],
)
def test_a_request_that_cannot_be_met_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], sentence: str) -> None:
    """Every mistake of the caller ends with status 2 and one sentence."""
    with pytest.raises(SystemExit) as stopped:
        prepare.main([*flags, "--out", str(tmp_path)])
    assert stopped.value.code == 2
    assert sentence in capsys.readouterr().err


def test_the_default_corpus_is_on_every_machine() -> None:
    """The standard library's source is found without a network: much text, no tests, in a fixed order."""
    documents = corpora.standard_library([])
    first = [next(documents) for _ in range(40)]
    assert first == [text for text, _ in zip(corpora.standard_library([]), range(40), strict=False)]
    assert sum(map(len, first)) > 100_000
