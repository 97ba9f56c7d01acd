"""Counts the norms among the products: their sums lose what half precision can't hold.

law: mixed_precision.step.gradients_agree_with_fp32
says: gradient
"""
# region solution precision_of
    narrow = {
        "linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "mv", "addmm", "baddbmm", "einsum",
        "conv1d", "conv2d", "conv3d", "scaled_dot_product_attention", "layer_norm", "rms_norm", "softmax",
    }  # fmt: skip
    wide = {
        "log_softmax", "logsumexp", "exp", "log", "pow", "__pow__", "rsqrt", "sum", "mean", "prod", "cumsum", "var", "std",
        "norm", "group_norm", "cross_entropy", "nll_loss", "mse_loss", "binary_cross_entropy_with_logits",
    }  # fmt: skip
    return "narrow" if operation in narrow else "wide" if operation in wide else "as_given"
# endregion
