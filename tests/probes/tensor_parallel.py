"""What runs beside a submission to `tensor_parallel`: it drives functions, layers and models and reports what they did. No opinions."""

from __future__ import annotations

import contextlib
import gc
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from lm.gpt import GPT, GPTConfig


def group_of(at: Any, groups: list[list[int]] | None) -> Any:
    """None for the default group, or that one of `groups` to which this rank belongs; all ranks make all of them."""
    made = {rank: group for members in groups or [] for group in [dist.new_group(members)] for rank in members}
    return made.get(at.rank)


def view(memory: torch.Tensor, layout: str) -> torch.Tensor:
    """`memory` as it lies, or with its first and last dims swapped."""
    return memory.transpose(0, -1) if layout == "transposed" else memory


def turned(x: torch.Tensor) -> torch.Tensor:
    """The same numbers in memory of their own, with the first dim innermost."""
    return x.permute(*reversed(range(x.ndim))).contiguous().permute(*reversed(range(x.ndim)))


# --- functions -------------------------------------------------------------------------------------------------------
def functions(
    at: Any, *, names: list[str], layout: str = "plain", groups: list[list[int]] | None = None, dim: int | None = None
) -> dict[str, torch.Tensor]:
    """Each function forward and backward, inputs x/<name> and gradient/<name>; y, dx, and the inputs afterwards."""
    group = group_of(at, groups)
    answer: dict[str, torch.Tensor] = {}
    for name in names:
        memory, incoming = at.inputs[f"x/{name}"], view(at.inputs[f"gradient/{name}"], layout)
        x = view(memory, layout).detach().requires_grad_()
        options = {} if dim is None or not name.endswith("sequence") else {"dim": dim}
        with at.phase(f"{name} forward"):
            y = getattr(at.submission, name)(x, group, **options)
        with at.phase(f"{name} backward"):
            y.backward(incoming)
        answer |= {f"y/{name}": y.detach(), f"dx/{name}": gradient_of(x)}
        answer |= {f"x after/{name}": x.detach(), f"gradient after/{name}": incoming}
    return answer


def nested(at: Any, *, name: str) -> dict[str, torch.Tensor]:
    """Two calls of a sequence function, along dim 0 and dim 1, before the backward of either; the gradients of their inputs."""
    inputs = [at.inputs[f"x{dim}"].clone().requires_grad_() for dim in (0, 1)]
    outputs = [getattr(at.submission, name)(x, None, dim) for dim, x in enumerate(inputs)]
    for dim, y in enumerate(outputs):
        y.backward(at.inputs[f"gradient{dim}"])
    return {f"dx{dim}": gradient_of(x) for dim, x in enumerate(inputs)}


def refusals(at: Any, *, cases: list[dict[str, Any]]) -> None:
    """Each case's call; the type and message of what it raised, "" where nothing was."""
    raised = []
    for case in cases:
        try:
            with at.phase("refusal"):
                refused(at, case)
            raised.append(("", ""))
        except NotImplementedError:
            raise
        except Exception as error:
            raised.append((type(error).__name__, str(error)))
    at.report(raised=raised)


def refused(at: Any, case: dict[str, Any]) -> None:
    """One call that can't be done: of a function on zeros, of a layer's constructor, of a model."""
    what, shape = case["what"], case.get("shape")
    if what.endswith("Linear"):
        getattr(at.submission, what)(nn.Linear(*shape))
    elif what == "gpt":
        gpt = at.submission.parallelize(GPT(GPTConfig(**case["config"])), sequence_parallel=True)
        gpt(torch.zeros(1, case["extent"], dtype=torch.int64))
    else:
        getattr(at.submission, what)(torch.zeros(shape), **case.get("options", {}))


# --- linear and vocabulary -------------------------------------------------------------------------------------------
def linear(
    at: Any, *, kind_of_layer: str, options: dict[str, bool], has_bias: bool, groups: list[list[int]] | None = None
) -> dict[str, torch.Tensor]:
    """A layer made from the whole one of the inputs weight and bias, forward and backward with x and gradient, neither contiguous."""
    group = group_of(at, groups)
    weight, incoming = at.inputs["weight"], turned(at.inputs["gradient"])
    whole = nn.Linear(weight.shape[1], weight.shape[0], bias=has_bias, dtype=weight.dtype)
    with torch.no_grad():
        whole.weight.copy_(weight)
        if has_bias:
            whole.bias.copy_(at.inputs["bias"])
    layer = getattr(at.submission, f"{kind_of_layer}ParallelLinear")(whole, group, **options)
    initial = {name: p.detach().clone() for name, p in layer.named_parameters()}
    x = turned(at.inputs["x"]).requires_grad_()
    with at.phase("forward"):
        y = layer(x)
    with at.phase("backward"):
        y.backward(incoming)
    is_bias_intact = not has_bias or torch.equal(whole.bias, at.inputs["bias"])
    at.report(**held_by(layer, whole), is_whole_intact=torch.equal(whole.weight, weight) and is_bias_intact)
    return {"y": y.detach(), "dx": gradient_of(x)} | initial | {f"d{name}": gradient_of(p) for name, p in layer.named_parameters()}


def embedding(
    at: Any, *, vocab_size: int, sequence_parallel: bool = False, groups: list[list[int]] | None = None
) -> dict[str, torch.Tensor]:
    """The embedding made from the whole one of the input weight, forward on tokens and backward with gradient, neither contiguous."""
    group = group_of(at, groups)
    weight = at.inputs["weight"]
    whole = nn.Embedding(vocab_size, weight.shape[1], dtype=weight.dtype)
    with torch.no_grad():
        whole.weight.copy_(weight)
    layer = at.submission.VocabParallelEmbedding(whole, group, sequence_parallel=sequence_parallel)
    initial = layer.weight.detach().clone()
    with at.phase("forward"):
        y = layer(turned(at.inputs["tokens"]))
    with at.phase("backward"):
        y.backward(turned(at.inputs["gradient"]))
    at.report(**held_by(layer, whole), is_whole_intact=torch.equal(whole.weight, weight))
    return {"y": y.detach(), "weight": initial, "dweight": gradient_of(layer.weight)}


def held_by(module: nn.Module, whole: nn.Module | None = None) -> dict[str, Any]:
    """What a module's parameters are: names, shapes, marks, bytes of the memory behind them (counted once), and which lie in `whole`'s."""
    named = dict(module.named_parameters())
    of_whole = {p.untyped_storage().data_ptr() for p in whole.parameters()} if whole else set()
    memory = {p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in named.values()}
    buffers = {b.untyped_storage().data_ptr(): b.untyped_storage().nbytes() for b in module.buffers()}
    return {
        "shapes": {name: list(p.shape) for name, p in named.items()},
        "cut": [name for name, p in named.items() if getattr(p, "is_cut", False)],
        "trained": [name for name, p in named.items() if p.requires_grad],
        "shared": [name for name, p in named.items() if p.untyped_storage().data_ptr() in of_whole],
        "held_bytes": sum((memory | buffers).values()),
    }


def cross_entropy(
    at: Any, *, vocab_size: int, ignore_index: int | None = None, scale: float = 1.0, groups: list[list[int]] | None = None
) -> dict[str, torch.Tensor]:
    """The loss of this rank's logits, and their gradient times `scale`. Neither logits nor targets are contiguous."""
    group = group_of(at, groups)
    options: dict[str, Any] = {"vocab_size": vocab_size} | ({} if ignore_index is None else {"ignore_index": ignore_index})
    logits, targets = turned(at.inputs["logits"]).requires_grad_(), turned(at.inputs["targets"])
    with at.phase("forward"):
        loss = at.submission.vocab_parallel_cross_entropy(logits, targets, group, **options)
    with at.phase("backward"):
        loss.backward(torch.tensor(scale, dtype=loss.dtype))
    return {"loss": loss.detach(), "dlogits": gradient_of(logits), "logits after": logits.detach(), "targets after": targets}


def large_logits(at: Any, *, num_tokens: int, num_columns: int) -> dict[str, torch.Tensor]:
    """The loss of logits that are made here, (3i + 7j) mod 64 / 16 for token i and column j of all, and parts of their gradient."""
    columns = torch.arange(at.rank * num_columns, (at.rank + 1) * num_columns)
    logits = torch.empty(num_tokens, num_columns)
    for token in range(num_tokens):
        logits[token] = ((3 * token + 7 * columns) % 64) / 16
    targets = torch.arange(num_tokens) * 37 % (num_columns * at.world_size)
    logits.requires_grad_()
    with at.phase("forward"):
        loss = at.submission.vocab_parallel_cross_entropy(logits, targets, vocab_size=num_columns * at.world_size)
    with at.phase("backward"):
        loss.backward()
    gradient = gradient_of(logits)
    return {"loss": loss.detach(), "some": gradient[:, :16].clone(), "sums": gradient.sum(1)}


# --- randomness ------------------------------------------------------------------------------------------------------
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


# --- the model -------------------------------------------------------------------------------------------------------
def built(at: Any, config: dict[str, Any]) -> GPT:
    """The whole GPT with the inputs w/<name> as its weights."""
    gpt = GPT(GPTConfig(**config))
    parameters = dict(gpt.named_parameters())
    gpt.to(at.inputs[f"w/{next(iter(parameters))}"].dtype)
    with torch.no_grad():
        for name, parameter in gpt.named_parameters():
            parameter.copy_(at.inputs[f"w/{name}"])
    return gpt


def plain(at: Any, *, config: dict[str, Any], num_tokens: int) -> dict[str, torch.Tensor]:
    """The whole model on one rank; nothing of the submission is used."""
    gpt = built(at, config)
    words = packed(at)
    loss = gpt(at.inputs["tokens"], at.inputs["targets"], **words)
    loss.backward()
    answer = {f"d/{name}": gradient_of(p) for name, p in gpt.named_parameters()}
    return answer | {"loss": loss.detach(), "logits": gpt(at.inputs["tokens"], **words).detach()}


def packed(at: Any) -> dict[str, torch.Tensor]:
    """What a model is told of positions: nothing, if none are given."""
    return {"positions_T": at.inputs["positions"]} if "positions" in at.inputs else {}


def model(
    at: Any, *, config: dict[str, Any], shapes: dict[str, list[int]], sequence_parallel: bool = False,
    groups: list[list[int]] | None = None, num_backwards: int = 1,
) -> dict[str, torch.Tensor]:  # fmt: skip
    """The model in slices: its parameters at first, loss, logits, gradients after `num_backwards` equal backwards.

    shapes: names of the whole model's parameters, and what stands for those that are missing.
    """
    group = group_of(at, groups)
    gpt = built(at, config)
    before = {name: StorageWeakRef(p.untyped_storage()) for name, p in gpt.named_parameters()}
    returned = at.submission.parallelize(gpt, group, sequence_parallel=sequence_parallel)
    gc.collect()
    at.report(**held_by(gpt), is_in_place=returned is gpt, alive=[name for name, memory in before.items() if not memory.expired()])
    missing = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}
    parameters = {name: p for name, p in (missing | dict(gpt.named_parameters())).items() if name in shapes}
    answer = {f"w/{name}": p.detach().clone() for name, p in parameters.items()}
    for _ in range(num_backwards):
        with at.phase("forward"):
            loss = gpt(at.inputs["tokens"], at.inputs["targets"], **packed(at))
        with at.phase("backward"):
            loss.backward()
    answer |= {f"d/{name}": gradient_of(p) for name, p in parameters.items()}
    return answer | {"loss": loss.detach(), "logits": gpt(at.inputs["tokens"], **packed(at)).detach()}


def block(at: Any, *, config: dict[str, Any], num_tokens: int, sequence_parallel: bool = False) -> dict[str, torch.Tensor]:
    """One block forward and backward, with the inputs x and gradient of the shape that its stream has; and what embed returns."""
    gpt = at.submission.parallelize(GPT(GPTConfig(**config)), sequence_parallel=sequence_parallel)
    positions = torch.arange(num_tokens)
    embedded = gpt.embed(torch.zeros(len(at.inputs["x"]), num_tokens, dtype=torch.int64), positions)
    x = at.inputs["x"].clone().requires_grad_()
    with at.phase("block forward"):
        y = gpt.blocks[0](x, gpt.angles(positions))
    with at.phase("block backward"):
        incoming = at.inputs["gradient"]
        y.backward(incoming if y.shape == incoming.shape else torch.ones_like(y))
    at.report(embedded=list(embedded.shape), carried_on=list(y.shape), normed=list(gpt.norm(y).shape))
    return {}


def large_model(at: Any, *, config: dict[str, Any], num_tokens: int, sequence_parallel: bool = False) -> dict[str, torch.Tensor]:
    """A step of a model with a large vocabulary and equal weights, so that its loss is that of a guess."""
    gpt = GPT(GPTConfig(**config))
    with torch.no_grad():
        for parameter in gpt.parameters():
            parameter.fill_(0.01)
    gpt = at.submission.parallelize(gpt, sequence_parallel=sequence_parallel)
    tokens = torch.arange(num_tokens)[None] * 17 % config["vocab_size"]
    loss = gpt(tokens, tokens)
    loss.backward()
    return {"loss": loss.detach()}


def refused_model(at: Any, *, cases: list[dict[str, Any]]) -> None:
    """parallelize of models that can't be cut; what it raised, and whether the model is as it was."""
    raised, is_intact = [], []
    for case in cases:
        gpt = GPT(GPTConfig(**case["config"]))
        before = described(gpt)
        try:
            with at.phase("refusal"):
                at.submission.parallelize(gpt)
            raised.append(("", ""))
        except NotImplementedError:
            raise
        except Exception as error:
            raised.append((type(error).__name__, str(error)))
        is_intact.append(described(gpt) == before)
    at.report(raised=raised, is_intact=is_intact)


def described(gpt: nn.Module) -> list[Any]:
    """What modules and parameters a model has."""
    return [[name, type(module).__name__] for name, module in gpt.named_modules()] + [[n, list(p.shape)] for n, p in gpt.named_parameters()]


# --- clipping --------------------------------------------------------------------------------------------------------
def clip(
    at: Any, *, max_norm: float, cut: list[str], missing: list[str], groups: list[list[int]] | None = None
) -> dict[str, torch.Tensor]:
    """clip_grad_norm_ of parameters with the inputs as gradients, those in `cut` marked as parts; the norm, and the gradients after."""
    group = group_of(at, groups)
    parameters = {}
    for name, gradient in at.inputs.items():
        parameters[name] = parameter = nn.Parameter(torch.ones_like(gradient))
        parameter.grad = None if name in missing else gradient.clone()
        if name in cut or len(parameters) % 2:
            parameter.is_cut = name in cut
    given = {name: p.grad.data_ptr() for name, p in parameters.items() if p.grad is not None}
    norm = at.submission.clip_grad_norm_(iter(parameters.values()), max_norm, group)
    replaced = [name for name, place in given.items() if parameters[name].grad is None or parameters[name].grad.data_ptr() != place]
    at.report(appeared=[name for name in missing if parameters[name].grad is not None], replaced=replaced)
    return {"norm": norm.detach()} | {name: gradient_of(p) for name, p in parameters.items() if name not in missing}


def gradient_of(parameter: torch.Tensor) -> torch.Tensor:
    """A parameter's gradient, zeros where there is none."""
    return torch.zeros_like(parameter.detach()) if parameter.grad is None else parameter.grad.detach()
