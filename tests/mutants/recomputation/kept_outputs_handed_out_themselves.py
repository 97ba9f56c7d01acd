"""Hands the kept tensors out as they are instead of aliases; equal operations on equal inputs share one.

law: recomputation.selective.gradients_are_exact
says: detach
"""
# region solution keep
        outputs = func(*args, **(kwargs or {}))
        if func in self.save:
            self.outputs.extend(outputs if isinstance(outputs, tuple | list) else (outputs,))
        return outputs
# endregion

# region solution replay
        if func not in self.save:
            return func(*args, **(kwargs or {}))
        outputs = tuple(self.outputs.pop(0) for _ in func._schema.returns)
        return outputs if len(outputs) > 1 else outputs[0]
# endregion
