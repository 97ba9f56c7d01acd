"""Takes for granted that every parameter of the optimizer has a gradient.

law: mixed_precision.scaler.unscales_once
says: NoneType
"""
# region solution unscale
        if self.is_unscaled:
            raise RuntimeError("the gradients of this step are unscaled already: unscale_ comes once between update and update")
        getattr(optimizer, "collect_gradients", lambda: None)()
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.found_non_finite |= not bool(parameter.grad.isfinite().all())
                parameter.grad.mul_(1 / self.current_scale)
        self.is_unscaled = True
# endregion
