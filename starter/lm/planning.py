"""A model, a cluster, and a plan to train the one on the other: what goes into an estimate of a step, and what comes out.

Plain frozen records of numbers and words: `Plan(**facts)` and `dataclasses.asdict(plan)` carry each of them through JSON. Sizes are in
bytes, rates per second; KB, MB and GB are powers of ten. The standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Recompute = Literal["none", "selective", "full"]
ScheduleName = Literal["gpipe", "1f1b", "interleaved"]

AXES = ("tp", "cp", "dp", "pp")  # innermost first: neighbouring ranks share a tensor-parallel group; ep is cut out of dp


@dataclass(frozen=True)
class Model:
    """A GPT and the batch of one step of its training, in 16-bit mixed precision with Adam."""

    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int  # fewer than num_heads: grouped-query attention
    mlp_size: int
    vocab_size: int
    sequence: int  # tokens of one sequence
    global_batch: int  # sequences per optimizer step, over all GPUs
    gated: bool = False  # a third matrix in the MLP (swiglu)
    tied: bool = True  # the head is the token embedding
    bias: bool = True  # of linear layers and norms
    rotary: bool = False  # positions are computed, not learned
    dropout: bool = False  # after attention and MLP, and on attention's probabilities where these exist
    attention: Literal["dense", "flash"] = "flash"  # dense: the s x s matrix of each head goes through memory, all of it
    num_experts: int = 1  # MLPs of which each token takes top_k; 1: an ordinary layer
    top_k: int = 1

    def __post_init__(self) -> None:
        """Raise ValueError for what no model can be."""
        if self.hidden_size % self.num_heads or self.num_heads % self.num_kv_heads:
            raise ValueError("hidden_size must be a multiple of num_heads, and num_heads one of num_kv_heads")
        if not 1 <= self.top_k <= self.num_experts:
            raise ValueError(f"top_k must be from 1 to num_experts, not {self.top_k}")

    @property
    def head_dim(self) -> int:
        """Numbers per attention head."""
        return self.hidden_size // self.num_heads

    @property
    def qkv_size(self) -> int:
        """Columns of the matrix that makes queries, keys and values."""
        return (self.num_heads + 2 * self.num_kv_heads) * self.head_dim

    @property
    def expert_parameters(self) -> int:
        """Trained numbers of one MLP."""
        num_matrices = 3 if self.gated else 2
        biases = (num_matrices - 1) * self.mlp_size + self.hidden_size if self.bias else 0
        return num_matrices * self.hidden_size * self.mlp_size + biases

    @property
    def shared_parameters(self) -> int:
        """Trained numbers of one layer outside its MLPs: attention, both norms, the router if there is one."""
        matrices = self.hidden_size * (self.qkv_size + self.hidden_size)
        biases = self.qkv_size + self.hidden_size if self.bias else 0
        norms = 2 * self.hidden_size * (2 if self.bias else 1)
        router = self.hidden_size * self.num_experts if self.num_experts > 1 else 0
        return matrices + biases + norms + router

    @property
    def layer_parameters(self) -> int:
        """Trained numbers of one layer, all its experts included."""
        return self.shared_parameters + self.num_experts * self.expert_parameters

    @property
    def embedding_parameters(self) -> int:
        """Trained numbers in front of the first layer."""
        return (self.vocab_size + (0 if self.rotary else self.sequence)) * self.hidden_size

    @property
    def head_parameters(self) -> int:
        """Numbers of the head's matrix; trained a second time only if it isn't tied."""
        return self.vocab_size * self.hidden_size

    @property
    def num_parameters(self) -> int:
        """All trained numbers."""
        final_norm = self.hidden_size * (2 if self.bias else 1)
        head = 0 if self.tied else self.head_parameters
        return self.embedding_parameters + self.num_layers * self.layer_parameters + final_norm + head


@dataclass(frozen=True)
class Cluster:
    """Equal nodes of equal GPUs. Link bandwidths are per GPU and direction, when all GPUs of a node use the link at once."""

    num_nodes: int
    gpus_per_node: int
    gpu: str
    flops_per_s: float  # what 16-bit matrix products of good shapes really reach, not the peak
    memory_bytes: float
    memory_bytes_per_s: float  # reached, as well
    intra_latency_s: float  # between GPUs of one node
    intra_bytes_per_s: float
    inter_latency_s: float  # between nodes
    inter_bytes_per_s: float
    num_processors: int = 1  # of a GPU: a matrix product is made of tiles, and so many at a time; 1: no round is ever part empty
    launch_s: float = 0.0  # of the host for each kernel, where it waits for one before it launches the next; 0: it is always ahead

    @property
    def num_gpus(self) -> int:
        """GPUs of the whole cluster."""
        return self.num_nodes * self.gpus_per_node


@dataclass(frozen=True)
class Plan:
    """How the ranks are laid out (tp innermost, then cp, dp, pp) and what each of them does in a step."""

    dp: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1  # experts are divided among ep of the dp replicas: ep divides dp and adds no GPUs
    micro_batch: int = 1  # sequences
    num_micro_batches: int = 1  # per replica and step
    zero_stage: int = 0  # 0 DDP, 1 optimizer states, 2 and gradients, 3 and weights (FSDP) divided among dp · cp ranks
    recompute: Recompute = "none"  # selective: attention's s x s part; full: every layer from its input
    schedule: ScheduleName = "1f1b"
    chunks: int = 1  # model chunks per pipeline rank; more than one with "interleaved" only
    sequence_parallel: bool = False  # norms and residuals divided among the tp ranks as well
    gradient_bytes: int = 2  # per parameter: 2; 4 summed in fp32; 6 both
    overlap: bool = True  # gradients are reduced, and weights gathered, while others compute

    @property
    def num_gpus(self) -> int:
        """Ranks of the plan."""
        return self.dp * self.tp * self.pp * self.cp

    @property
    def global_batch(self) -> int:
        """Sequences of a step."""
        return self.dp * self.micro_batch * self.num_micro_batches


@dataclass(frozen=True)
class StepEstimate:
    """One optimizer step, seen from the pipeline rank with the most to do; memory is that of the fullest rank."""

    compute_s: float
    exposed_communication_s: float  # what no computation hides
    bubble_s: float  # waiting for other pipeline ranks
    memory_bytes: float

    @property
    def step_s(self) -> float:
        """From one step to the next."""
        return self.compute_s + self.exposed_communication_s + self.bubble_s
