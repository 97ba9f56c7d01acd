"""Takes the gradient that comes from behind for 1.

law: context_parallel.sequence.loss_gradients_are_the_parts_of_the_whole
says: gradient
"""
        # region solution sum_backward
        return torch.ones_like(gradient), None
        # endregion
