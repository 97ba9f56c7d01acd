"""Prepare a corpus for train.py: get the text, learn or load an encoding, write shards and a manifest.

python -m datasets.prepare                                     Python's own source: no network needed
python -m datasets.prepare tiny_shakespeare --from input.txt   a named corpus from a copy that you have
python -m datasets.prepare --list                              what there is
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import tiktoken

from datasets.corpora import CORPORA, Corpus
from datasets.download import Unreachable, download, progress, sha256_of, verify
from datasets.encodings import gpt2_encoding, load_encoding, save_encoding, train_encoding
from lm.loader import write_shard

CACHE = Path(__file__).parent / "cache"
VALIDATION_SHARE = 20  # one document in so many, or, of fewer documents, that share of each one's end
TRAINING_SAMPLE_CHARACTERS = 16_000_000  # of text, for the encoding: more changes few merges and takes long
BATCH_DOCUMENTS = 64


def local_sources(corpus: Corpus, given: Path | None, downloads: Path) -> tuple[list[Path], list[dict[str, Any]]]:
    """Return the corpus's files on this machine, verified, and what the manifest says of each."""
    if given is not None:
        paths = sorted(given.glob("*.txt")) if given.is_dir() else [given]
        if not paths or not paths[0].exists():
            raise FileNotFoundError(f"{given} holds no text: give a file, or a folder with .txt files")
        if corpus.sources and len(paths) != len(corpus.sources):
            raise ValueError(f"{corpus.name} consists of {len(corpus.sources)} file(s), {given} holds {len(paths)}")
        expected = [source.sha256 for source in corpus.sources] or [None] * len(paths)
        sums = [verify(path, sha256, corpus.name) for path, sha256 in zip(paths, expected, strict=True)]
        return paths, [{"file": path.name, "sha256": sha256} for path, sha256 in zip(paths, sums, strict=True)]
    paths, descriptions = [], []
    for source in corpus.sources:
        path = downloads / source.file_name
        noted = path.with_name(path.name + ".sha256")
        expected_sha256 = source.sha256 or (noted.read_text().strip() if noted.exists() else None)
        try:
            sha256 = download(source.url, path, expected_sha256)
        except Unreachable as error:
            advice = "What had arrived is kept. Without a network, give a copy by --from PATH, or prepare stdlib, which needs none"
            raise Unreachable(f"{error}. {advice}") from error
        noted.write_text(sha256 + "\n")
        paths.append(path)
        descriptions.append({"url": source.url, "sha256": sha256})
    return paths, descriptions


def split(documents: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield (part, text) with part train or valid: every 20th document is for validation, or, of fewer than 20, the end of each."""
    stream = iter(documents)
    first = list(itertools.islice(stream, VALIDATION_SHARE))
    if len(first) < VALIDATION_SHARE:
        for text in first:
            cut = text.rfind("\n", 0, len(text) - len(text) // VALIDATION_SHARE) + 1
            yield "train", text[:cut]
            yield "valid", text[cut:]
        return
    for i, text in enumerate(itertools.chain(first, stream), start=1):
        yield ("valid" if i % VALIDATION_SHARE == 0 else "train"), text


def sample(documents: Iterable[str]) -> Iterator[str]:
    """Yield documents until they are enough to learn an encoding from."""
    num_characters = 0
    for text in documents:
        yield text
        num_characters += len(text)
        if num_characters >= TRAINING_SAMPLE_CHARACTERS:
            return


class ShardWriter:
    """Collects the tokens of one part and writes a shard whenever enough are together."""

    def __init__(self, folder: Path, part: str, vocab_size: int, shard_tokens: int) -> None:
        self.folder, self.part, self.vocab_size, self.shard_tokens = folder, part, vocab_size, shard_tokens
        self.waiting: list[np.ndarray[Any, np.dtype[np.uint32]]] = []
        self.num_waiting = 0
        self.shards: list[dict[str, Any]] = []

    def add(self, tokens: Sequence[int]) -> None:
        """Take one document's tokens; a shard ends with a document, so it may be somewhat longer than asked."""
        self.waiting.append(np.asarray(tokens, dtype=np.uint32))
        self.num_waiting += len(tokens)
        if self.num_waiting >= self.shard_tokens:
            self.flush()

    def flush(self) -> None:
        """Write what is waiting."""
        if not self.num_waiting:
            return
        path = self.folder / f"{self.part}_{len(self.shards):05}.tokens"
        write_shard(path, np.concatenate(self.waiting), self.vocab_size)
        self.shards.append({"file": path.name, "num_tokens": self.num_waiting, "sha256": sha256_of(path)})
        self.waiting, self.num_waiting = [], 0


def write_shards(documents: Iterable[str], encoding: tiktoken.Encoding, folder: Path, shard_tokens: int) -> dict[str, Any]:
    """Encode every document, end it with <|endoftext|>, and write all shards; return what the manifest says of them."""
    writers = {part: ShardWriter(folder, part, encoding.n_vocab, shard_tokens) for part in ("train", "valid")}
    digest, pieces = hashlib.sha256(), split(documents)
    with progress(f"encoding by {encoding.name}", 0, None) as bar:
        while batch := list(itertools.islice(pieces, BATCH_DOCUMENTS)):
            texts = [text for _, text in batch]
            for (part, text), tokens in zip(batch, encoding.encode_ordinary_batch(texts, num_threads=os.cpu_count() or 1), strict=True):
                writers[part].add([*tokens, encoding.eot_token])
                text_bytes = text.encode()
                digest.update(text_bytes)
                bar.update(len(text_bytes))
    for part, writer in writers.items():
        writer.flush()
        if not writer.shards:
            raise ValueError(f"the corpus has no text for its {part} part")
    parts = {part: {"num_tokens": sum(s["num_tokens"] for s in w.shards), "shards": w.shards} for part, w in writers.items()}
    return {"text_sha256": digest.hexdigest(), "parts": parts}


def is_prepared(folder: Path, request: dict[str, Any], verified: bool) -> bool:
    """Say whether the folder holds what the request asks for, whole; `verified` also sums up every shard."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        shards = [shard for part in manifest["parts"].values() for shard in part["shards"]]
        same = manifest["request"] == request and load_encoding(folder / "encoding.json").n_vocab == manifest["encoding"]["vocab_size"]
        return same and all(
            (folder / shard["file"]).exists() and (not verified or sha256_of(folder / shard["file"]) == shard["sha256"]) for shard in shards
        )
    except (OSError, ValueError, KeyError):
        return False


def choose_encoding(options: argparse.Namespace, corpus: Corpus, paths: list[Path]) -> tiktoken.Encoding:
    """Return the encoding that the flags ask for: learnt from the corpus, GPT-2's, or one that was kept."""
    if options.encoding == "trained":
        return train_encoding(sample(corpus.documents(paths)), options.vocabulary, f"{corpus.name}_{options.vocabulary}")
    if options.encoding == "gpt2":
        try:
            return gpt2_encoding(options.encoding_files)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Unreachable(
                f"GPT-2's encoding cannot be fetched ({type(error).__name__}): give its two files by --encoding-files FOLDER"
            ) from error
    return load_encoding(Path(options.encoding))


def prepare(options: argparse.Namespace) -> Path:
    """Do all that is not done yet; return the folder, whose manifest is written last."""
    corpus = CORPORA[options.corpus]
    if corpus.name == "text" and options.given is None:
        raise ValueError("the corpus `text` is your own: say where by --from FILE or FOLDER")
    folder: Path = options.out or CACHE / corpus.name
    request = {"corpus": corpus.name, "encoding": options.encoding, "vocabulary": options.vocabulary, "shard_tokens": options.shard_tokens}
    request |= {"from": str(options.given.resolve()) if options.given else None, "python": platform.python_version()}
    if is_prepared(folder, request, options.verify):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    for stale in [folder / "manifest.json", *folder.glob("*.tokens")]:
        stale.unlink(missing_ok=True)
    paths, sources = local_sources(corpus, options.given, folder / "downloads")
    encoding = choose_encoding(options, corpus, paths)
    save_encoding(encoding, folder / "encoding.json")
    written = write_shards(corpus.documents(paths), encoding, folder, options.shard_tokens)
    manifest = {
        "corpus": corpus.name,
        "about": corpus.about,
        "licence": corpus.licence,
        "sources": sources,
        "encoding": {"name": encoding.name, "vocab_size": encoding.n_vocab, "sha256": sha256_of(folder / "encoding.json")},
        "request": request,
        **written,
    }
    partial = folder / "manifest.json.partial"
    partial.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, folder / "manifest.json")
    return folder


def describe(folder: Path) -> str:
    """Return what was prepared, in one line."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    counts = ", ".join(f"{part} {content['num_tokens']:,} tokens" for part, content in manifest["parts"].items())
    return f"{folder}: {manifest['corpus']} ({manifest['licence']}), {counts}, vocabulary {manifest['encoding']['vocab_size']}"


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the flags."""
    parser = argparse.ArgumentParser(prog="datasets.prepare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="?", choices=sorted(CORPORA), default="stdlib")
    parser.add_argument("--list", action="store_true", help="list the corpora and end")
    parser.add_argument("--from", dest="given", type=Path, metavar="PATH", help="a copy that you have, instead of the network")
    parser.add_argument("--out", type=Path, help="default: datasets/cache/<corpus>")
    parser.add_argument("--encoding", default="trained", help="trained (on this corpus), gpt2, or an encoding.json of an earlier corpus")
    parser.add_argument("--encoding-files", type=Path, metavar="FOLDER", help="with vocab.bpe and encoder.json, for gpt2 without network")
    parser.add_argument("--vocabulary", type=int, default=2048, help="tokens of a trained encoding")
    parser.add_argument("--shard-tokens", type=int, default=100_000_000)
    parser.add_argument("--verify", action="store_true", help="sum up the shards that are there, instead of looking for their names only")
    return parser.parse_args(argv)


def stop(sentence: str) -> NoReturn:
    """End with status 2, which means: you can mend this."""
    print(f"datasets.prepare: {sentence}", file=sys.stderr)
    raise SystemExit(2)


def main(argv: Sequence[str] | None = None) -> None:
    """Prepare one corpus and say where it is."""
    options = parse(argv)
    if options.list:
        for corpus in CORPORA.values():
            print(f"{corpus.name:18} {corpus.about} [{corpus.licence}]")
        return
    try:
        print(describe(prepare(options)))
    except Unreachable as error:
        stop(str(error))
    except (ValueError, FileNotFoundError, ModuleNotFoundError) as error:
        stop(str(error))


if __name__ == "__main__":
    main()
