"""The corpora by name: where each comes from, under which licence, and how its documents are read."""

from __future__ import annotations

import os
import random
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HUGGING_FACE = "https://huggingface.co/datasets"
TINY_STORIES = f"{HUGGING_FACE}/roneneldan/TinyStories/resolve/f54c09fd23315a6f9c86f9dc80f725de7d8f9c64"
FINEWEB_EDU = f"{HUGGING_FACE}/HuggingFaceFW/fineweb-edu/resolve/main"
STORY_END = "<|endoftext|>"


@dataclass(frozen=True)
class Source:
    """A file to download. sha256 None: not known when this was written, so the first download's is kept and later ones are held to it."""

    url: str
    sha256: str | None

    @property
    def file_name(self) -> str:
        """The last part of the address."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Corpus:
    """Text under a name. `documents` gets the local copies of `sources`, in their order; without sources it gets none."""

    name: str
    about: str
    licence: str
    documents: Callable[[list[Path]], Iterator[str]]
    sources: tuple[Source, ...] = ()


def standard_library(no_paths: list[Path]) -> Iterator[str]:
    """Yield every module of the running Python's standard library, without its tests, folder by folder."""
    left_out = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__", "lib2to3"}
    for folder, subfolders, names in os.walk(sysconfig.get_path("stdlib")):
        subfolders[:] = sorted(set(subfolders) - left_out)  # os.walk goes on with what is in here, in this order
        for name in sorted(names):
            if name.endswith(".py"):
                yield (Path(folder) / name).read_text(encoding="utf-8", errors="replace")


def generated(no_paths: list[Path], *, num_documents: int = 400, seed: int = 0) -> Iterator[str]:
    """Yield small sums in words, the same on every machine. A model can learn them, so a loss on them means something."""
    draw = random.Random(seed)
    names = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    things = ["gradients", "shards", "tokens", "heads", "ranks", "buckets"]
    for _ in range(num_documents):
        sentences = []
        for _ in range(draw.randint(3, 12)):
            first, second = draw.randint(0, 5), draw.randint(0, 5)
            thing = draw.choice(things)
            sentences.append(f"{names[first]} {thing} and {names[second]} {thing} are {names[first + second]} {thing}.")
        yield "\n".join(sentences) + "\n"


def text_files(paths: list[Path]) -> Iterator[str]:
    """Yield each file as one document."""
    for path in paths:
        yield path.read_text(encoding="utf-8", errors="replace")


def stories(paths: list[Path]) -> Iterator[str]:
    """Yield the stories of files in which a line <|endoftext|> ends each; read line by line, for the files are larger than memory."""
    for path in paths:
        lines: list[str] = []
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.strip() == STORY_END:
                    yield "".join(lines)
                    lines = []
                else:
                    lines.append(line)
        if any(line.strip() for line in lines):
            yield "".join(lines)


def parquet_texts(paths: list[Path]) -> Iterator[str]:
    """Yield the column `text`, row group by row group; ModuleNotFoundError says what to install."""
    try:
        import pyarrow.parquet as parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("this corpus comes as parquet files, which `pip install pyarrow` can read") from error
    for path in paths:
        file: Any = parquet.ParquetFile(path)
        for group in range(file.num_row_groups):
            yield from file.read_row_group(group, columns=["text"]).column("text").to_pylist()


CORPORA: dict[str, Corpus] = {corpus.name: corpus for corpus in (
    Corpus("stdlib", "the source of Python's standard library, 11 MB, already on this machine", "PSF-2.0", standard_library),
    Corpus("generated", "small sums in words, for tests: the same text everywhere", "CC0-1.0", generated),
    Corpus("text", "your own text: a file, or a folder of .txt files, by --from", "yours to know", text_files),
    Corpus(
        "tiny_shakespeare", "the plays' dialogue, 1.1 MB", "public domain", text_files,
        (Source("https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
                "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"),),
    ),
    Corpus(
        "tiny_stories", "short stories written by GPT-4 in a child's words, 2.2 GB (Eldan and Li 2023)", "CDLA-Sharing-1.0", stories,
        (Source(f"{TINY_STORIES}/TinyStoriesV2-GPT4-train.txt", None),),
    ),
    Corpus(
        "fineweb_edu", "educational web pages, the first file of the 10-billion-token sample, 2.2 GB (Penedo et al. 2024)", "ODC-By-1.0",
        parquet_texts, (Source(f"{FINEWEB_EDU}/sample/10BT/000_00000.parquet", None),),
    ),
)}  # fmt: skip
