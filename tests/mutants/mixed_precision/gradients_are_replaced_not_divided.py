"""Puts new tensors into .grad instead of dividing in place.

law: mixed_precision.scaler.unscales_once
says: in place
"""
# region solution unscale
        if self.is_unscaled:
            raise RuntimeError("the gradients of this step are unscaled already: unscale_ comes once between update and update")
        getattr(optimizer, "collect_gradients", lambda: None)()
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.found_non_finite |= not bool(parameter.grad.isfinite().all())
                    parameter.grad = parameter.grad / self.current_scale
        self.is_unscaled = True
# endregion
