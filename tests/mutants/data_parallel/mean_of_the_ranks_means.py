"""Divides by this rank's own tokens, so that averaging gives the mean of the ranks' means.

law: data_parallel.accumulation.every_token_weighs_the_same
says: token
"""
# region solution mean_loss_scale
    return 1.0 / num_tokens if num_tokens else 0.0
# endregion
