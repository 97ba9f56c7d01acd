"""Three operations that memory bounds, each fused into one pass over its tensors: RMSNorm, bias + GELU, and cross-entropy.

Each is a torch.autograd.Function over two Triton kernels, one forward and one backward. Numbers travel in the tensors' own dtype and are
worked on in float32, in registers: nothing in between is written to memory.
"""

# N rows (all leading dims together), D row size, V vocabulary
from __future__ import annotations

import torch

try:
    import triton
    import triton.language as tl

    jit = triton.jit
except ImportError:  # macOS has no Triton; the tasks in bottlenecks.py need none
    jit = lambda kernel: kernel  # noqa: E731

IGNORE_INDEX = -100
TILE_ELEMENTS = 4096  # elements that a program works on at a time: 32 for each of 128 threads


# --- given: rows, and how many programs share them --------------------------------------------------------------------
def rows_of(x: torch.Tensor) -> torch.Tensor:
    """`x` (..., D) as rows (N, D) whose elements lie side by side: a view where the layout allows it, a copy only where it doesn't."""
    rows_ND = x.reshape(x.shape[:-1].numel(), x.shape[-1])
    return rows_ND if rows_ND.stride(1) == 1 or rows_ND.shape[1] == 1 else rows_ND.contiguous()


def num_programs_for(num_rows: int, device: torch.device, num_columns: int = 1) -> int:
    """How many programs share the rows of each column of tiles: one for each eight rows, but no more than keep every processor busy."""
    programs = -(-num_rows // 8)
    if device.type != "cuda":
        return programs
    return min(programs, max(1, 8 * torch.cuda.get_device_properties(device).multi_processor_count // num_columns))


def warps_for(block: int) -> int:
    """Warps for a block of so many elements: about 16 elements a thread."""
    return min(16, max(1, block // 512))


@jit
def whole_vectors(start, num_elements, VECTOR: tl.constexpr):
    """How to move elements start ... start + num_elements - 1 in vectors of VECTOR, 16 bytes -> (origin, first, last, offs, beside).

    A row of 50257 begins anywhere, and the compiler moves 16 bytes at once only where it can prove that the address is a multiple of 16 and
    that the mask takes or leaves whole vectors. Count from `origin`, a multiple of VECTOR: from `first` up to `last` behind it there are
    whole vectors only, and the few elements before and after are at `offs`, where `beside` is true.
    """
    origin = start // VECTOR * VECTOR
    begin = (start - origin).to(tl.int32)
    end = begin + num_elements
    first = tl.cdiv(begin, VECTOR) * VECTOR
    last = end // VECTOR * VECTOR
    lane = tl.arange(0, 2 * VECTOR)
    offs = tl.where(lane < VECTOR, begin + lane, tl.maximum(first, last) + lane - VECTOR)
    return origin, first, last, offs, offs < tl.where(lane < VECTOR, tl.minimum(first, end), end)


# --- task rms_norm ---------------------------------------------------------------------------------------------------
@jit
def rms_norm_forward_kernel(x_ptr, weight_ptr, y_ptr, rstd_ptr, stride_x: tl.constexpr, dim: tl.constexpr, eps, BLOCK_D: tl.constexpr):
    """y and rstd = 1 / sqrt(mean(x²) + eps) of one row. y_ptr is contiguous (N, D), rstd_ptr (N,).

    Stride and dim are constants to the compiler: it sees what divides them, and moves 16 bytes at a time also where that is only 8.
    """
    raise NotImplementedError("fused_kernels, task rms_norm: see section 5 of the handout")


@jit
def rms_norm_backward_kernel(
    dy_ptr, x_ptr, weight_ptr, rstd_ptr, dx_ptr, partial_ptr, stride_dy: tl.constexpr, stride_x: tl.constexpr, num_rows, dim: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr = 1,
):  # fmt: skip
    """dx of every P-th tile of rows, and this program's part of dweight. dx_ptr is contiguous (N, D), partial_ptr (P, D) float32."""
    raise NotImplementedError("fused_kernels, task rms_norm: see section 5 of the handout")


class RmsNormFunction(torch.autograd.Function):
    """x · rstd · weight by rows. Between the passes it keeps x, weight, and one float32 number for each row."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        """-> y, of x's shape and dtype."""
        raise NotImplementedError("fused_kernels, task rms_norm: see section 5 of the handout")

    @staticmethod
    def backward(ctx, dy):
        """-> dx, dweight, and None for eps."""
        raise NotImplementedError("fused_kernels, task rms_norm: see section 5 of the handout")


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """x / sqrt(mean(x²) + eps) · weight over the last dim. x (..., D) of any strides, weight (D,) -> y, contiguous, in x's dtype."""
    raise NotImplementedError("fused_kernels, task rms_norm: see section 5 of the handout")


# --- task bias_gelu --------------------------------------------------------------------------------------------------
@jit
def bias_gelu_forward_kernel(x_ptr, bias_ptr, y_ptr, stride_x, num_rows, dim, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr):
    """gelu(x + bias) of one tile. y_ptr is contiguous (N, D)."""
    raise NotImplementedError("fused_kernels, task bias_gelu: see section 6 of the handout")


@jit
def bias_gelu_backward_kernel(
    dy_ptr, x_ptr, bias_ptr, dx_ptr, partial_ptr, stride_dy, stride_x, num_rows, dim, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr
):
    """dx of every P-th tile of a column of tiles, and their part of the bias gradient. dx_ptr is (N, D), partial_ptr (P, D) float32."""
    raise NotImplementedError("fused_kernels, task bias_gelu: see section 6 of the handout")


class BiasGeluFunction(torch.autograd.Function):
    """gelu(x + bias). It keeps x and bias, not their sum and not the tanh: both are cheaper made again than read."""

    @staticmethod
    def forward(ctx, x, bias):
        """-> y, of x's shape and dtype."""
        raise NotImplementedError("fused_kernels, task bias_gelu: see section 6 of the handout")

    @staticmethod
    def backward(ctx, dy):
        """-> dx and dbias."""
        raise NotImplementedError("fused_kernels, task bias_gelu: see section 6 of the handout")


def bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """gelu(x + bias), GELU in its tanh form. x (..., D) of any strides, bias (D,) -> y of x's shape and dtype, contiguous."""
    raise NotImplementedError("fused_kernels, task bias_gelu: see section 6 of the handout")


# --- task cross_entropy ----------------------------------------------------------------------------------------------
@jit
def cross_entropy_forward_kernel(
    logits_ptr, targets_ptr, loss_ptr, lse_ptr, stride_logits: tl.constexpr, stride_targets, num_classes: tl.constexpr, ignore_index,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    """loss = lse - logit of the target, and lse, of one row; both 0 where the target is ignored. loss_ptr and lse_ptr are (N,) float32."""
    raise NotImplementedError("fused_kernels, task cross_entropy: see section 7 of the handout")


@jit
def cross_entropy_backward_kernel(
    logits_ptr, targets_ptr, lse_ptr, scale_ptr, dlogits_ptr, stride_logits: tl.constexpr, stride_targets, num_classes: tl.constexpr,
    ignore_index, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """(softmax - one_hot) · scale of one row, 0 where the target is ignored. dlogits_ptr is contiguous (N, V)."""
    raise NotImplementedError("fused_kernels, task cross_entropy: see section 7 of the handout")


class CrossEntropyFunction(torch.autograd.Function):
    """The mean loss over the targets that count. It keeps the logits as they came, the targets, and one float32 number for each row."""

    @staticmethod
    def forward(ctx, logits_NV, targets_N, ignore_index):
        """-> the loss, float32, without dims."""
        raise NotImplementedError("fused_kernels, task cross_entropy: see section 7 of the handout")

    @staticmethod
    def backward(ctx, dloss):
        """-> dlogits, in the logits' dtype, and None for what has no gradient."""
        raise NotImplementedError("fused_kernels, task cross_entropy: see section 7 of the handout")


def cross_entropy(logits_NV: torch.Tensor, targets_N: torch.Tensor, *, ignore_index: int = IGNORE_INDEX) -> torch.Tensor:
    """Mean of -log softmax(logits)[target] over the rows whose target isn't `ignore_index` -> float32 without dims; 0 if none counts.

    logits (N, V) of any strides, targets (N,) int64 or int32 in 0 ... V - 1 or `ignore_index`.
    """
    raise NotImplementedError("fused_kernels, task cross_entropy: see section 7 of the handout")
