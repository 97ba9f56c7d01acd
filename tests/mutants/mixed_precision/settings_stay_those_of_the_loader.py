"""Loads the optimizer's moments and not its settings.

law: mixed_precision.masters.state_dict_resumes_bit_by_bit
says: resumed
"""
# region solution masters_load_state_dict
        own = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({**copy.deepcopy(state["optimizer"]), "param_groups": own})
        for (parameter, master), saved in zip(self.pairs, state["masters"], strict=True):
            master.copy_(saved)
            parameter.copy_(master)
# endregion
