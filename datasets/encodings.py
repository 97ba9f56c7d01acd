"""Byte-level BPE encodings: trained by the `tokenizers` library, kept as one JSON file, used as a tiktoken.Encoding."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path

import tiktoken
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

END_OF_TEXT = "<|endoftext|>"
# GPT-2's: contractions, words, numbers, punctuation, each with the space before it. Merges never cross these borders.
PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
GPT2_FILES = {
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
}
NUM_BYTES = 256


def bytes_by_character() -> dict[str, int]:
    """Return the alphabet in which GPT-2's tools write bytes: printable ones as themselves, the others as characters from 256 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(NUM_BYTES) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(NUM_BYTES + i): byte for i, byte in enumerate(others)}


def train_encoding(texts: Iterable[str], vocab_size: int, name: str) -> tiktoken.Encoding:
    """Learn an encoding of at most vocab_size tokens, <|endoftext|> being the last; ValueError below 256 bytes and that one."""
    if vocab_size < NUM_BYTES + 1:
        raise ValueError(
            f"a byte-level vocabulary needs {NUM_BYTES} bytes and {END_OF_TEXT}, so at least {NUM_BYTES + 1}, not {vocab_size}"
        )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size - 1, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    byte_of = bytes_by_character()
    # The trainer numbers the bytes first and each merge as it is learnt: just the ranks that tiktoken merges by.
    ranks = {bytes(byte_of[character] for character in token): rank for token, rank in tokenizer.get_vocab().items()}
    return make_encoding(name, ranks)


def make_encoding(name: str, ranks: dict[bytes, int]) -> tiktoken.Encoding:
    """Return the encoding with these merge ranks, numbered from 0 without a gap, and <|endoftext|> after them."""
    return tiktoken.Encoding(name, pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={END_OF_TEXT: len(ranks)})


def save_encoding(encoding: tiktoken.Encoding, path: Path) -> None:
    """Write the encoding as JSON: its name and its tokens in the order of their ranks, in base64."""
    tokens = [base64.b64encode(encoding.decode_single_token_bytes(rank)).decode() for rank in range(encoding.eot_token)]
    path.write_text(json.dumps({"name": encoding.name, "pattern": PATTERN, "tokens": tokens}, indent=0) + "\n", encoding="utf-8")


def load_encoding(path: Path) -> tiktoken.Encoding:
    """Read what save_encoding wrote; ValueError if the file is something else."""
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        ranks = {base64.b64decode(token): rank for rank, token in enumerate(saved["tokens"])}
        name, pattern = saved["name"], saved["pattern"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not an encoding that datasets.prepare wrote ({type(error).__name__}: {error})") from error
    if pattern != PATTERN:
        raise ValueError(f"{path} splits text by another pattern than this version does; prepare the corpus again")
    return make_encoding(name, ranks)


def gpt2_encoding(folder: Path | None) -> tiktoken.Encoding:
    """Return GPT-2's own encoding from OpenAI's two files in `folder`, or, without one, from the network (kept by tiktoken).

    Raises ValueError if a file isn't the published one, FileNotFoundError if it is missing, OSError without a network.
    """
    if folder is None:
        return tiktoken.get_encoding("gpt2")
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks

    vocabulary, encoder = (folder / name for name in GPT2_FILES)
    for path in (vocabulary, encoder):
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing: GPT-2's encoding is the two files {' and '.join(GPT2_FILES)}")
    ranks = data_gym_to_mergeable_bpe_ranks(
        str(vocabulary), str(encoder), vocab_bpe_hash=GPT2_FILES["vocab.bpe"], encoder_json_hash=GPT2_FILES["encoder.json"]
    )
    return make_encoding("gpt2", ranks)
