"""Hands the caller's state dict to the optimizer, which takes the moments in as they are and then changes them.

law: mixed_precision.masters.state_dict_resumes_bit_by_bit
says: copy
"""
# region solution masters_load_state_dict
        self.optimizer.load_state_dict(state["optimizer"])
        for (parameter, master), saved in zip(self.pairs, state["masters"], strict=True):
            master.copy_(saved)
            parameter.copy_(master)
# endregion
