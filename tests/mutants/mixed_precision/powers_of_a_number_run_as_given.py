"""Knows x ** 2 and not 2 ** x, which torch calls by another name.

law: mixed_precision.casting.sensitive_operations_run_wide
says: power
"""
# region solution precision_of
    products = "linear matmul mm bmm mv addmm baddbmm einsum conv1d conv2d conv3d scaled_dot_product_attention"
    sensitive = (
        "softmax log_softmax logsumexp exp log pow rsqrt sum mean prod cumsum var std norm layer_norm rms_norm group_norm"
        " cross_entropy nll_loss mse_loss binary_cross_entropy_with_logits"
    )
    if operation in products.split() or operation in ("__matmul__", "__rmatmul__"):
        return "narrow"
    return "wide" if operation in sensitive.split() or operation == "__pow__" else "as_given"
# endregion
