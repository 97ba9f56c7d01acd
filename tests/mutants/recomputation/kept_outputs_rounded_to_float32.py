"""Keeps the outputs rounded to float32, to save memory.

law: recomputation.selective.gradients_are_exact
says: float64
"""
# region solution keep
        outputs = func(*args, **(kwargs or {}))
        if func in self.save:
            several = outputs if isinstance(outputs, tuple | list) else (outputs,)
            self.outputs.extend(output.detach().float().to(output.dtype) for output in several)
        return outputs
# endregion
