"""Leaves the backward pass to torch's own operations, pass after pass over x, and launches no kernel.

law: fused_kernels.rms_norm.reads_each_tensor_once
says: load
"""
        # region solution rms_norm_backward
        x, weight, rstd_N = ctx.saved_tensors
        wide, rstd, dy = x.float(), rstd_N.view(*x.shape[:-1], 1), dy.float()
        x_hat, dx_hat = wide * rstd, dy * weight.float()
        dx = rstd * (dx_hat - x_hat * (dx_hat * x_hat).mean(-1, keepdim=True))
        dweight = (dy * x_hat).reshape(-1, x.shape[-1]).sum(0)
        return dx.to(x.dtype).contiguous(), dweight.to(weight.dtype), None
        # endregion
