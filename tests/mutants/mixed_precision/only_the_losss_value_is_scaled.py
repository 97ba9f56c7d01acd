"""The loss has the right value, but its gradients aren't scaled.

law: mixed_precision.scaler.loss_and_gradients_are_scaled
says: gradient
"""
# region solution scale
        return loss + (self.current_scale - 1.0) * loss.detach()
# endregion
