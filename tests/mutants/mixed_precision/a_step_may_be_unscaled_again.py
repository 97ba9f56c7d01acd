"""Forgets with the step, and not with update, that the gradients were unscaled.

law: mixed_precision.scaler.unscales_once
says: RuntimeError
"""
# region solution scaler_step
        if not self.is_unscaled:
            self.unscale_(optimizer)
        self.is_unscaled = False
        if self.found_non_finite:
            return False
        optimizer.step()
        return True
# endregion
