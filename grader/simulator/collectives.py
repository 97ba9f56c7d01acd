"""What a collective costs: latency per round and bytes over bandwidth, on one link or on two when its group spans nodes.

Hockney's model. The ring's figures are those of the judge's virtual time (grader/wire/virtual_time.py), to which tests hold them. An
all-reduce takes the cheapest of ring, tree and hierarchical; all-gather and reduce-scatter are rings, as in NCCL before 2.23. A node's
links work side by side: where g ranks of a group share a node, their ring leaves it over all g links of theirs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from grader.simulator.records import Cluster


class Group(NamedTuple):
    """`size` ranks, of which `per_node` share a node."""

    size: int
    per_node: int

    @property
    def num_nodes(self) -> int:
        """Nodes that the group touches."""
        return -(-self.size // self.per_node)


def placed(cluster: Cluster, stride: int, size: int) -> Group:
    """The group of `size` ranks that are `stride` apart: as many to a node as there fit."""
    return Group(size, max(1, min(size, cluster.gpus_per_node // stride)))


def _ring_s(cluster: Cluster, group: Group, num_bytes: float) -> float:
    """One pass around the ring, in which each rank's share comes to all others: what is in flight crosses a node's border once per node."""
    n, nodes = group.size, group.num_nodes
    if n == 1:
        return 0.0
    latency_s = (n - nodes) * cluster.intra_latency_s + (nodes - 1) * cluster.inter_latency_s
    return latency_s + (n - 1) / n * num_bytes / _ring_bytes_per_s(cluster, group)


def _ring_bytes_per_s(cluster: Cluster, group: Group) -> float:
    if group.num_nodes == 1:
        return cluster.intra_bytes_per_s
    leaving = group.per_node * cluster.inter_bytes_per_s
    return leaving if group.per_node == 1 else min(cluster.intra_bytes_per_s, leaving)


def reduce_scatter_s(cluster: Cluster, group: Group, num_bytes: float) -> float:
    """Each rank has `num_bytes` and ends with the sum of its share. A ring."""
    return _ring_s(cluster, group, num_bytes)


def all_gather_s(cluster: Cluster, group: Group, num_bytes: float) -> float:
    """Each rank ends with `num_bytes`, of which it had its share. A ring."""
    return _ring_s(cluster, group, num_bytes)


def all_reduce_s(cluster: Cluster, group: Group, num_bytes: float) -> float:
    """Each rank has `num_bytes` and ends with the sum: by a ring, a tree, or among the ranks of a node and then among nodes."""
    if group.size == 1:
        return 0.0
    ways_s = [2 * _ring_s(cluster, group, num_bytes), _tree_s(cluster, group, num_bytes)]
    if 1 < group.per_node < group.size:
        in_node = Group(group.per_node, group.per_node)
        between = Group(group.num_nodes, 1)
        ways_s.append(2 * (_ring_s(cluster, in_node, num_bytes) + _ring_s(cluster, between, num_bytes / group.per_node)))
    return min(ways_s)


def _tree_s(cluster: Cluster, group: Group, num_bytes: float) -> float:
    """Up to the root and down again, in pieces, so that the bytes count once each way."""
    between, inside = math.ceil(math.log2(group.num_nodes)), math.ceil(math.log2(group.per_node))
    latency_s = between * cluster.inter_latency_s + inside * cluster.intra_latency_s
    return 2 * (latency_s + num_bytes / _ring_bytes_per_s(cluster, group))


def all_to_all_s(cluster: Cluster, group: Group, num_bytes: float) -> float:
    """Each rank has `num_bytes`, an equal part for each rank; what leaves the node and what stays travel side by side."""
    n = group.size
    if n == 1:
        return 0.0
    inside_s = (group.per_node - 1) * cluster.intra_latency_s + (group.per_node - 1) / n * num_bytes / cluster.intra_bytes_per_s
    others = n - group.per_node
    return max(inside_s, others * cluster.inter_latency_s + others / n * num_bytes / cluster.inter_bytes_per_s if others else 0.0)


def message_s(cluster: Cluster, stride: int, num_bytes: float) -> float:
    """One message to the rank that is `stride` further."""
    if stride < cluster.gpus_per_node:
        return cluster.intra_latency_s + num_bytes / cluster.intra_bytes_per_s
    return cluster.inter_latency_s + num_bytes / cluster.inter_bytes_per_s
