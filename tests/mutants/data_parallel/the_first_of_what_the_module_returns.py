"""Takes what the module returns for one tensor, or the first of several.

law: data_parallel.overlapped.works_step_after_step
says: returns a tuple
"""
        # region solution ddp_forward
        output = self.module(*inputs, **named)
        return output[0] if isinstance(output, tuple) else output
        # endregion
