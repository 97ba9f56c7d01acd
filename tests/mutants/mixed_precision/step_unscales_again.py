"""The step divides by the scale although unscale_ has done so.

law: mixed_precision.scaler.unscales_once
says: scale
"""
# region solution scaler_step
        self.is_unscaled = False
        self.unscale_(optimizer)
        if self.found_non_finite:
            return False
        optimizer.step()
        return True
# endregion
