"""Casts under no_grad, so that a weight which is cast gets no gradient.

law: mixed_precision.casting.gradients_come_back_in_fp32
says: outside of the graph
"""
# region solution precision_of
    products = "linear matmul mm bmm mv addmm baddbmm einsum conv1d conv2d conv3d scaled_dot_product_attention"
    sensitive = (
        "softmax log_softmax logsumexp exp log pow rsqrt sum mean prod cumsum var std norm layer_norm rms_norm group_norm"
        " cross_entropy nll_loss mse_loss binary_cross_entropy_with_logits"
    )
    name = operation
    if name.startswith("__"):
        name = name.strip("_")
        name = {"rmatmul": "matmul", "rpow": "pow"}.get(name, name)
    if name in products.split():
        return "narrow"
    return "wide" if name in sensitive.split() else "as_given"
# endregion
# region solution cast
        precision = precision_of(func.__name__)
        if precision == "as_given":
            return func(*args, **(kwargs or {}))
        target = self.dtype if precision == "narrow" else torch.float32

        @torch.no_grad()
        def cast(value: Any) -> Any:
            if isinstance(value, Tensor):
                return value.to(target) if value.dtype in (torch.float32, torch.float16, torch.bfloat16) else value
            if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
                return type(value)(cast(item) for item in value)
            return value

        return func(*(cast(value) for value in args), **{name: cast(value) for name, value in (kwargs or {}).items()})
# endregion
