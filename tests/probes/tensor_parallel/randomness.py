"""Random numbers of the ranks' own, and dropout."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from lm.gpt import GPT, GPTConfig

from .surroundings import group_of


def streams(at: Any, *, seeds: list[int], groups: list[list[int]] | None = None) -> dict[str, torch.Tensor]:
    """What is drawn inside two forks of each seed's stream (the global one differs by rank), and outside, with and without forks between.

    inside: (seed, fork, 8); again: the same of a second stream, in one fork; raised: of a third, whose first fork ends by an exception.
    """
    group = group_of(at, groups)
    inside, again, after = [], [], []
    torch.manual_seed(at.seed % 2**31 + at.rank)
    outside = [torch.rand(8)]
    for seed in seeds:
        random = at.submission.RankRandom(seed, group)
        forks = []
        for _ in range(2):
            with random.fork():
                forks.append(torch.rand(8))
            outside.append(torch.rand(8))
        inside.append(torch.stack(forks))
        torch.manual_seed(at.seed % 1000 + seed)
        second = at.submission.RankRandom(seed, group)
        with second.fork():
            again.append(torch.stack([torch.rand(8), torch.rand(8)]))
        third = at.submission.RankRandom(seed, group)
        with contextlib.suppress(Interrupted), third.fork():
            torch.rand(8)
            raise Interrupted
        outside.append(torch.rand(8))
        with third.fork():
            after.append(torch.rand(8))
    torch.manual_seed(at.seed % 2**31 + at.rank)
    plain = [torch.rand(8)]
    for seed in seeds:
        plain += [torch.rand(8), torch.rand(8)]
        torch.manual_seed(at.seed % 1000 + seed)
        plain.append(torch.rand(8))
    return {
        "inside": torch.stack(inside), "again": torch.stack(again), "raised": torch.stack(after),
        "outside": torch.stack(outside), "plain": torch.stack(plain),
    }  # fmt: skip


class Interrupted(Exception):
    """An exception that leaves a fork and is caught outside of it."""


def dropped(at: Any, *, config: dict[str, Any], num_tokens: int, sequence_parallel: bool, seed: int = 0) -> dict[str, torch.Tensor]:
    """The embedding of equal tokens and a block's output, twice while training and once not; all ranks seed the global stream alike.

    cut evaluating: the embedding of a model that was evaluating before it was cut.
    """
    torch.manual_seed(1)
    gpt, evaluating = GPT(GPTConfig(**config)), GPT(GPTConfig(**config)).eval()
    with torch.no_grad():
        for parameter in (*gpt.parameters(), *evaluating.parameters()):
            parameter.fill_(0.5)
    gpt, evaluating = (at.submission.parallelize(each, sequence_parallel=sequence_parallel, seed=seed) for each in (gpt, evaluating))
    torch.manual_seed(at.seed % 2**31)
    tokens, positions = torch.zeros(1, num_tokens, dtype=torch.int64), torch.arange(num_tokens)
    answer = {}
    for name in ("first", "second"):
        x = gpt.embed(tokens, positions).detach()
        answer |= {f"{name} embed": x, f"{name} block": gpt.blocks[0](torch.ones_like(x), gpt.angles(positions)).detach() - 1}
    gpt.eval()
    return answer | {"evaluated": gpt.embed(tokens, positions).detach(), "cut evaluating": evaluating.embed(tokens, positions).detach()}
