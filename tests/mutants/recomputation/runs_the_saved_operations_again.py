"""Runs the saved operation for its shape and throws the numbers away.

law: recomputation.selective.saved_operations_run_once
says: again
"""
# region solution replay
        if func not in self.save:
            return func(*args, **(kwargs or {}))
        func(*args, **(kwargs or {}))
        outputs = tuple(self.outputs.pop(0).detach() for _ in func._schema.returns)
        return outputs if len(outputs) > 1 else outputs[0]
# endregion
