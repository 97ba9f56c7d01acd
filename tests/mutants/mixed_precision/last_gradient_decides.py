"""Each gradient overwrites what the ones before it have found.

law: mixed_precision.scaler.non_finite_gradients_skip_the_step
says: skip
"""
# region solution unscale
        if self.is_unscaled:
            raise RuntimeError("unscale_ was called already in this step: call update() first")
        if hasattr(optimizer, "collect_gradients"):
            optimizer.collect_gradients()
        self.is_unscaled = True
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.found_non_finite = not bool(parameter.grad.isfinite().all())
                    parameter.grad.mul_(1.0 / self.current_scale)
# endregion
