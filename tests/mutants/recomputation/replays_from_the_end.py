"""Hands the kept outputs out last first.

law: recomputation.selective.gradients_are_exact
says: order
"""
# region solution replay
        if func not in self.save:
            return func(*args, **(kwargs or {}))
        outputs = tuple(self.outputs.pop().detach() for _ in func._schema.returns)
        return outputs if len(outputs) > 1 else outputs[0]
# endregion
