"""Shards hold what was written, and the loader deals every token once, to one rank, wherever it is interrupted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from lm.loader import HEADER, Shard, TokenLoader, write_shard


def counting_shards(folder: Path, lengths: list[int]) -> list[Shard]:
    """Shards whose tokens are 0, 1, 2 … through all of them, so that each token tells where it stood."""
    shards, start = [], 0
    for i, length in enumerate(lengths):
        path = folder / f"train_{i:05}.tokens"
        write_shard(path, np.arange(start, start + length), vocab_size=sum(lengths))
        shards.append(Shard.open(path))
        start += length
    return shards


@pytest.mark.parametrize("vocab_size", [2**16, 2**16 + 1])
def test_a_shard_holds_what_was_written(tmp_path: Path, vocab_size: int) -> None:
    """Tokens and vocabulary come back, in two bytes each as long as two bytes can hold them."""
    tokens = np.array([0, 1, vocab_size - 1])
    write_shard(tmp_path / "a.tokens", tokens, vocab_size)
    shard = Shard.open(tmp_path / "a.tokens")
    assert shard.tokens.tolist() == tokens.tolist()
    assert shard.vocab_size == vocab_size
    assert (tmp_path / "a.tokens").stat().st_size == HEADER.size + 3 * (2 if vocab_size == 2**16 else 4)


@pytest.mark.parametrize("tokens", [[], [0, 5], [-1, 2]], ids=["none", "beyond the vocabulary", "negative"])
def test_tokens_outside_the_vocabulary_are_never_written(tmp_path: Path, tokens: list[int]) -> None:
    """A shard with a token that no embedding has would fail far away, on a GPU, without a word; so it isn't written."""
    with pytest.raises(ValueError, match="0 … 4"):
        write_shard(tmp_path / "a.tokens", tokens, vocab_size=5)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_shard_is_refused(tmp_path: Path) -> None:
    """Any other file says that it isn't one, and what it begins with."""
    path = tmp_path / "a.tokens"
    path.write_bytes(b"To be, or not to be" * 10)
    with pytest.raises(ValueError, match="not a token shard: it starts with b'To be, o'"):
        Shard.open(path)


def test_a_truncated_shard_is_refused(tmp_path: Path) -> None:
    """A shard that lost its end says how many bytes it has and should have."""
    path = tmp_path / "a.tokens"
    write_shard(path, np.arange(10), vocab_size=10)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match="has 81 bytes, its header promises 84"):
        Shard.open(path)


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_every_token_is_a_target_once_per_epoch_whatever_the_number_of_ranks(tmp_path: Path, world_size: int) -> None:
    """Over one epoch, all ranks together see every window once: each token of a window's reach is a target on one rank, one time."""
    shards = counting_shards(tmp_path, [31, 23])  # 7 + 5 windows of 4 tokens; what is left at the ends is no window
    loaders = [TokenLoader(shards, batch_size=2, num_tokens=4, rank=rank, world_size=world_size) for rank in range(world_size)]
    dealt = [loader.next_batch() for _ in range(12 // (2 * world_size)) for loader in loaders]
    targets = torch.cat([targets.flatten() for _, targets in dealt])
    assert sorted(targets.tolist()) == [*range(1, 29), *range(32, 52)]
    for tokens, shifted in dealt:
        assert torch.equal(tokens + 1, shifted)  # the target of a token is the one after it


def test_epochs_follow_each_other_without_a_gap_and_in_another_order(tmp_path: Path) -> None:
    """A batch may straddle two epochs: nothing is dropped at the end of one, and the next has its own order."""
    loader = TokenLoader(counting_shards(tmp_path, [29]), batch_size=3, num_tokens=4)  # 7 windows, batches of 3
    starts = torch.cat([loader.next_batch()[0][:, 0] for _ in range(7)]).tolist()  # 21 windows: three epochs
    epochs = [starts[:7], starts[7:14], starts[14:]]
    assert all(sorted(epoch) == list(range(0, 28, 4)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_a_restored_position_continues_with_the_same_batches(tmp_path: Path) -> None:
    """A loader that loads another's state deals what the other would have dealt, across the end of an epoch."""
    shards = counting_shards(tmp_path, [45])
    first = TokenLoader(shards, batch_size=2, num_tokens=4)
    for _ in range(4):
        first.next_batch()
    second = TokenLoader(shards, batch_size=2, num_tokens=4)
    second.load_state_dict(first.state_dict())
    for _ in range(5):
        assert torch.equal(first.next_batch()[0], second.next_batch()[0])


def test_a_position_saved_by_two_ranks_is_continued_by_one(tmp_path: Path) -> None:
    """The stream is the same for any number of ranks, so a run may go on with fewer, without seeing a window twice."""
    shards = counting_shards(tmp_path, [73])
    two = [TokenLoader(shards, batch_size=3, num_tokens=4, rank=rank, world_size=2) for rank in range(2)]
    seen = [loader.next_batch()[0][:, 0] for loader in two]
    one = TokenLoader(shards, batch_size=12, num_tokens=4)
    one.load_state_dict(two[0].state_dict())
    seen.append(one.next_batch()[0][:, 0])
    assert sorted(torch.cat(seen).tolist()) == list(range(0, 72, 4))


def test_a_position_of_another_stream_is_refused(tmp_path: Path) -> None:
    """Another seed or other shards mean another order: going on in the middle of it would repeat windows and miss others."""
    shards = counting_shards(tmp_path, [73])
    state = TokenLoader(shards, batch_size=3, num_tokens=4, seed=1).state_dict()
    with pytest.raises(ValueError, match="seed 1, this one has 0"):
        TokenLoader(shards, batch_size=3, num_tokens=4).load_state_dict(state)
    with pytest.raises(ValueError, match="num_windows 18, this one has 9"):
        TokenLoader(shards, batch_size=3, num_tokens=8, seed=1).load_state_dict(state)


def test_a_sequence_longer_than_every_shard_is_refused(tmp_path: Path) -> None:
    """Too little text for one window says how much there is."""
    with pytest.raises(ValueError, match=r"no shard holds one window of 16 \+ 1 tokens; the longest has 16"):
        TokenLoader(counting_shards(tmp_path, [16, 3]), batch_size=1, num_tokens=16)
