"""Keeps and gives the scale as a tensor.

law: mixed_precision.scaler.unscales_once
says: float
"""
# region solution unscale
        if self.is_unscaled:
            raise RuntimeError("the gradients of this step are unscaled already: unscale_ comes once between update and update")
        getattr(optimizer, "collect_gradients", lambda: None)()
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.found_non_finite |= not bool(parameter.grad.isfinite().all())
                    parameter.grad.mul_(1 / self.current_scale)
        self.current_scale = torch.tensor(self.current_scale)
        self.is_unscaled = True
# endregion
