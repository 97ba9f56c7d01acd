"""What a plan can't be, in sentences. Memory is another question: `fits`."""

from __future__ import annotations

from collections.abc import Iterator

from grader.simulator.memory import memory_bytes
from grader.simulator.records import Cluster, Model, Plan


def why_not(model: Model, cluster: Cluster, plan: Plan) -> tuple[str, ...]:
    """Everything that forbids `plan`, memory aside; () if nothing does."""
    return tuple(_sentences(model, cluster, plan))


def fits(model: Model, cluster: Cluster, plan: Plan) -> bool:
    """Whether the fullest rank has the memory."""
    return memory_bytes(model, plan) <= cluster.memory_bytes


def _sentences(model: Model, cluster: Cluster, plan: Plan) -> Iterator[str]:
    degrees = (plan.dp, plan.tp, plan.pp, plan.cp, plan.ep, plan.micro_batch, plan.num_micro_batches, plan.chunks)
    if min(degrees) < 1:
        yield f"Every degree and count is at least 1; the smallest is {min(degrees)}."
        return
    if plan.num_gpus != cluster.num_gpus:
        product = f"dp {plan.dp} x tp {plan.tp} x pp {plan.pp} x cp {plan.cp}"
        yield f"{product} = {plan.num_gpus} ranks, but the cluster has {cluster.num_gpus} GPUs."
    if plan.global_batch != model.global_batch:
        product = f"dp {plan.dp} x micro_batch {plan.micro_batch} x num_micro_batches {plan.num_micro_batches}"
        yield f"{product} = {plan.global_batch} sequences, but a step has {model.global_batch}."
    if model.num_kv_heads % plan.tp or model.mlp_size % plan.tp:
        yield f"tp {plan.tp} doesn't divide both {model.num_kv_heads} key/value heads and {model.mlp_size} columns of the MLP."
    if plan.sequence_parallel and model.sequence // plan.cp % plan.tp:
        yield f"tp {plan.tp} doesn't divide the {model.sequence // plan.cp} tokens of a rank, which sequence_parallel asks for."
    if plan.cp > 1 and model.sequence % (2 * plan.cp):
        yield f"A sequence of {model.sequence} tokens can't be cut into 2 x cp = {2 * plan.cp} equal pieces."
    if plan.pp * plan.chunks > model.num_layers:
        yield f"pp {plan.pp} x chunks {plan.chunks} = {plan.pp * plan.chunks} stages, but there are only {model.num_layers} layers."
    if model.num_experts % plan.ep or plan.dp % plan.ep:
        yield f"ep {plan.ep} doesn't divide both the {model.num_experts} experts and dp {plan.dp}, among whose replicas they are divided."
    if plan.zero_stage not in (0, 1, 2, 3):
        yield f"ZeRO has the stages 0, 1, 2 and 3, not {plan.zero_stage}."
    yield from _schedule_sentences(plan)


def _schedule_sentences(plan: Plan) -> Iterator[str]:
    if plan.schedule not in ("gpipe", "1f1b", "interleaved"):
        yield f"There is no schedule {plan.schedule!r}."
    elif plan.schedule != "interleaved":
        if plan.chunks != 1:
            yield f"{plan.schedule} has one chunk per rank, not {plan.chunks}."
    elif plan.pp < 2 or plan.chunks < 2:
        yield f"The interleaved schedule needs pp and chunks of at least 2, not {plan.pp} and {plan.chunks}."
    elif plan.num_micro_batches % plan.pp:
        yield f"The interleaved schedule needs num_micro_batches to be a multiple of pp: {plan.num_micro_batches} isn't one of {plan.pp}."
