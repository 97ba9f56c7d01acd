"""Grows only when there were more good steps than the interval.

law: mixed_precision.scaler.scale_follows_the_published_rule
says: scale
"""
# region solution update
        if self.found_non_finite:
            self.current_scale *= self.backoff_factor
            self.num_good_steps = 0
        else:
            self.num_good_steps += 1
            if self.num_good_steps > self.growth_interval:
                self.current_scale *= self.growth_factor
                self.num_good_steps = 0
        self.is_unscaled = self.found_non_finite = False
# endregion
