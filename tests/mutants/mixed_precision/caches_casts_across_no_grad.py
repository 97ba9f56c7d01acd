"""Keeps each weight's cast for later calls, also one that was made under no_grad: the weight then gets no gradient.

law: mixed_precision.casting.gradients_come_back_in_fp32
says: under no_grad before
"""
# region solution cast
        precision = precision_of(func.__name__)
        if precision == "as_given":
            return func(*args, **(kwargs or {}))
        target = self.dtype if precision == "narrow" else torch.float32
        kept = vars(self).setdefault("kept", {})

        def cast(value: Any) -> Any:
            if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
                return type(value)(cast(item) for item in value)
            if not isinstance(value, Tensor) or value.dtype not in (torch.float32, torch.float16, torch.bfloat16):
                return value
            if not (value.is_leaf and value.requires_grad):
                return value.to(target)
            key = (id(value), value._version, target)
            if key not in kept:
                kept[key] = value.to(target)
            return kept[key]

        return func(*(cast(value) for value in args), **{name: cast(value) for name, value in (kwargs or {}).items()})
# endregion
