"""Keeps only the first of an operation's outputs and hands it out for all of them.

law: recomputation.selective.gradients_are_exact
says: output
"""
# region solution keep
        outputs = func(*args, **(kwargs or {}))
        if func in self.save:
            several = outputs[:1] if isinstance(outputs, tuple | list) else (outputs,)
            self.outputs.extend(output.detach() for output in several)
        return outputs
# endregion

# region solution replay
        if func not in self.save:
            return func(*args, **(kwargs or {}))
        outputs = (self.outputs.pop(0).detach(),) * len(func._schema.returns)
        return outputs if len(outputs) > 1 else outputs[0]
# endregion
