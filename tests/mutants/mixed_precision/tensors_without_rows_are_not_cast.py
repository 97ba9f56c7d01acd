"""Leaves tensors without numbers as they are.

law: mixed_precision.casting.products_run_narrow
says: same dtype
"""
# region solution cast
        kwargs = kwargs or {}
        precision = precision_of(func.__name__)
        if precision == "as_given":
            return func(*args, **kwargs)
        target = self.dtype if precision == "narrow" else torch.float32

        def cast(value: Any) -> Any:
            if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
                return type(value)(map(cast, value))
            castable = isinstance(value, Tensor) and value.numel() > 0 and value.dtype in (torch.float32, torch.float16, torch.bfloat16)
            return value.to(target) if castable else value

        return func(*map(cast, args), **{name: cast(value) for name, value in kwargs.items()})
# endregion
