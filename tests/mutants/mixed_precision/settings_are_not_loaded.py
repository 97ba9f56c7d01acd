"""Loads scale and count, but keeps the settings it was made with.

law: mixed_precision.scaler.state_dict_resumes_the_trajectory
says: scale
"""
# region solution scaler_state_dict
        return {
            "scale": self.current_scale,
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "num_good_steps": self.num_good_steps,
        }
# endregion
# region solution scaler_load_state_dict
        self.current_scale = state["scale"]
        self.num_good_steps = state["num_good_steps"]
        self.is_unscaled = self.found_non_finite = False
# endregion
