"""The scaler's state dict is its own dictionary, which changes with the next step.

law: mixed_precision.scaler.state_dict_resumes_the_trajectory
says: changing
"""
# region solution scaler_state_dict
        return vars(self)
# endregion
