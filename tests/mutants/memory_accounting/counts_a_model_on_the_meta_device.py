"""Builds the model on the meta device, under a name put together at run time, and counts its parameters.

law: memory_accounting.parameters.equals_the_model
says: GPT
"""
# region solution parameter_count
    import importlib

    gpt = importlib.import_module("lm" + ".gpt")
    with torch.device("meta"):
        model = getattr(gpt, "G" + "PT")(config)
    return sum(parameter.numel() for parameter in model.parameters())
# endregion
