"""Small models, clusters and plans, drawn at random or by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import strategies as st

from grader.simulator import Cluster, Model, Plan, plans

NODE = Cluster(1, 8, "drawn", 1e14, 40e9, 1e12, 1e-5, 1e11, 2e-5, 1e10, 64)


def node(num_nodes: int = 1, gpus_per_node: int = 8, **changes: Any) -> Cluster:
    """NODE, as many times, changed."""
    return replace(NODE, num_nodes=num_nodes, gpus_per_node=gpus_per_node, **changes)


def model(**changes: Any) -> Model:
    """A model small enough to count by hand."""
    return replace(Model(8, 512, 8, 4, 2048, 8192, 1024, 16), **changes)


models = st.builds(
    model,
    num_layers=st.sampled_from([4, 7]),
    attention=st.sampled_from(["dense", "flash"]),
    dropout=st.booleans(),
    gated=st.booleans(),
    tied=st.booleans(),
    num_experts=st.sampled_from([1, 4]),
    global_batch=st.sampled_from([8, 16]),
)
clusters = st.builds(
    node,
    num_nodes=st.sampled_from([1, 2, 4]),
    gpus_per_node=st.sampled_from([2, 4]),
    intra_bytes_per_s=st.sampled_from([1e9, 1e10, 1e11]),
    inter_bytes_per_s=st.sampled_from([1e8, 1e9, 1e10]),
    intra_latency_s=st.sampled_from([0.0, 1e-5]),
    inter_latency_s=st.sampled_from([0.0, 1e-4]),
)


@st.composite
def trios(draw: st.DrawFn) -> tuple[Model, Cluster, Plan]:
    """A model, a cluster and one of their valid plans, with and without overlap."""
    a_model, a_cluster = draw(models), draw(clusters)
    every = _every(a_model, a_cluster.num_nodes, a_cluster.gpus_per_node)
    return a_model, a_cluster, replace(draw(st.sampled_from(every)), overlap=draw(st.booleans()))


@cache
def _every(a_model: Model, num_nodes: int, gpus_per_node: int) -> tuple[Plan, ...]:
    """All plans for so many GPUs; of nothing else about a cluster do they depend."""
    return tuple(plans(a_model, node(num_nodes, gpus_per_node)))
