"""The given language model: the GPT, its data, its hardware, its checkpoints. Read it first; nothing here is graded."""
