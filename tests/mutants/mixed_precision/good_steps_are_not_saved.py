"""The state dict forgets the count of good steps.

law: mixed_precision.scaler.state_dict_resumes_the_trajectory
says: scale
"""
# region solution scaler_state_dict
        return {
            "scale": self.current_scale,
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
        }
# endregion
# region solution scaler_load_state_dict
        self.current_scale = state["scale"]
        self.growth_factor = state["growth_factor"]
        self.backoff_factor = state["backoff_factor"]
        self.growth_interval = state["growth_interval"]
        self.num_good_steps = 0
        self.is_unscaled = self.found_non_finite = False
# endregion
