"""A second unscale_ in a step quietly does nothing.

law: mixed_precision.scaler.unscales_once
says: RuntimeError
"""
# region solution unscale
        if self.is_unscaled:
            return
        if hasattr(optimizer, "collect_gradients"):
            optimizer.collect_gradients()
        self.is_unscaled = True
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    if not parameter.grad.isfinite().all():
                        self.found_non_finite = True
                    parameter.grad.mul_(1.0 / self.current_scale)
# endregion
