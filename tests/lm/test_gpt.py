"""The given GPT is the published model, whichever of its settings is used."""

from __future__ import annotations

import dataclasses
import sys
import types

import pytest
import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from lm.gpt import GPT, INIT_STD, PRESETS, GPTConfig, SelfAttention, dense_attention, sdpa_attention

SMALL = GPTConfig(vocab_size=97, max_tokens=32, num_layers=3, hidden_size=48, num_heads=4, num_kv_heads=4, mlp_size=80)
SMALL_LLAMA = dataclasses.replace(
    SMALL, num_kv_heads=2, positions="rotary", norm="rmsnorm", activation="swiglu", bias=False, tied=False, rotary_base=5e5
)


def grouped_rows(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, config: GPTConfig) -> torch.Tensor:
    """Lay the rows of three projections out as SelfAttention.qkv has them: group by group, queries, key, value."""
    D, G = config.head_dim, config.num_kv_heads
    parts = [part.reshape(G, -1, D, *part.shape[1:]) for part in (q, k, v)]
    return torch.cat(parts, dim=1).flatten(0, 2)


def published_gpt2() -> GPT2LMHeadModel:
    """A GPT-2 of transformers in SMALL's shape, with weights large enough that every term matters."""
    config = GPT2Config(
        vocab_size=SMALL.vocab_size, n_positions=SMALL.max_tokens, n_embd=SMALL.hidden_size, n_layer=SMALL.num_layers,
        n_head=SMALL.num_heads, n_inner=SMALL.mlp_size, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="eager",
    )  # fmt: skip
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model


@torch.no_grad()
def copy_from_gpt2(theirs: GPT2LMHeadModel, config: GPTConfig) -> GPT:
    """Return our GPT with their weights. Their Conv1D keeps a weight transposed."""
    ours = GPT(config)
    ours.token_embedding.weight.copy_(theirs.transformer.wte.weight)
    assert ours.position_embedding is not None
    ours.position_embedding.weight.copy_(theirs.transformer.wpe.weight)
    ours.norm.load_state_dict(theirs.transformer.ln_f.state_dict())
    for block, layer in zip(ours.blocks, theirs.transformer.h, strict=True):
        block.attention_norm.load_state_dict(layer.ln_1.state_dict())
        block.mlp_norm.load_state_dict(layer.ln_2.state_dict())
        block.attention.qkv.weight.copy_(grouped_rows(*layer.attn.c_attn.weight.T.chunk(3), config))
        block.attention.qkv.bias.copy_(grouped_rows(*layer.attn.c_attn.bias.chunk(3), config))
        for mine, other in (
            (block.attention.out, layer.attn.c_proj),
            (block.mlp.up, layer.mlp.c_fc),
            (block.mlp.down, layer.mlp.c_proj),
        ):
            mine.weight.copy_(other.weight.T)
            mine.bias.copy_(other.bias)
    return ours.eval()


@pytest.mark.parametrize("attention", ["dense", "sdpa"])
def test_logits_are_those_of_transformers_gpt2_up_to_rounding(attention: str) -> None:
    """With the same weights, our fp32 logits are as near to the fp64 truth as transformers' own fp32 logits, and fp64 ones agree."""
    torch.manual_seed(0)
    theirs = published_gpt2()
    ours = copy_from_gpt2(theirs, dataclasses.replace(SMALL, attention=attention))
    tokens = torch.randint(SMALL.vocab_size, (2, 29))
    with torch.no_grad():
        ours_fp32, theirs_fp32 = ours(tokens), theirs(tokens).logits
        ours_fp64, truth = ours.double()(tokens), theirs.double()(tokens).logits
    assert (ours_fp64 - truth).abs().max() <= 1e-12 * truth.abs().max()
    # Both round about as often; a factor of two allows for another order of the same sums.
    assert (ours_fp32 - truth).abs().max() <= 2 * (theirs_fp32 - truth).abs().max()


def test_gradients_are_those_of_transformers_gpt2() -> None:
    """Loss and gradients agree in fp64: of the tied embedding, of a norm, and of the fused projection's rows."""
    torch.manual_seed(1)
    theirs = published_gpt2()
    ours = copy_from_gpt2(theirs, SMALL).double()
    theirs = theirs.double()
    tokens = torch.randint(SMALL.vocab_size, (2, 17))
    loss = ours(tokens[:, :-1], tokens[:, 1:])
    loss.backward()
    # From their logits: their own loss is taken in fp32.
    expected = F.cross_entropy(theirs(tokens[:, :-1]).logits.flatten(0, 1), tokens[:, 1:].flatten())
    expected.backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(ours.token_embedding.weight.grad, theirs.transformer.wte.weight.grad)
    torch.testing.assert_close(ours.norm.weight.grad, theirs.transformer.ln_f.weight.grad)
    expected_rows = grouped_rows(*theirs.transformer.h[1].attn.c_attn.weight.grad.T.chunk(3), SMALL)
    torch.testing.assert_close(ours.blocks[1].attention.qkv.weight.grad, expected_rows)


def test_logits_are_those_of_transformers_llama() -> None:
    """Rotary positions, RMSNorm, SwiGLU, grouped keys and an untied head make transformers' Llama, given its weights."""
    torch.manual_seed(2)
    c = SMALL_LLAMA
    theirs = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=c.vocab_size, hidden_size=c.hidden_size, intermediate_size=c.mlp_size, num_hidden_layers=c.num_layers,
            num_attention_heads=c.num_heads, num_key_value_heads=c.num_kv_heads, rms_norm_eps=1e-5, max_position_embeddings=c.max_tokens,
            rope_parameters={"rope_type": "default", "rope_theta": c.rotary_base}, tie_word_embeddings=False,
        )
    ).eval()  # fmt: skip
    ours = GPT(c).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(std=0.3)
        ours.token_embedding.weight.copy_(theirs.model.embed_tokens.weight)
        ours.head.weight.copy_(theirs.lm_head.weight)
        ours.norm.weight.copy_(theirs.model.norm.weight)
        for block, layer in zip(ours.blocks, theirs.model.layers, strict=True):
            block.attention_norm.weight.copy_(layer.input_layernorm.weight)
            block.mlp_norm.weight.copy_(layer.post_attention_layernorm.weight)
            projections = (layer.self_attn.q_proj.weight, layer.self_attn.k_proj.weight, layer.self_attn.v_proj.weight)
            block.attention.qkv.weight.copy_(grouped_rows(*projections, c))
            block.attention.out.weight.copy_(layer.self_attn.o_proj.weight)
            for name in ("gate", "up", "down"):
                getattr(block.mlp, name).weight.copy_(getattr(layer.mlp, f"{name}_proj").weight)
        tokens = torch.randint(c.vocab_size, (2, 29))
        expected = theirs(tokens).logits
        torch.testing.assert_close(ours(tokens), expected, rtol=0, atol=2e-5 * expected.abs().max().item())


@pytest.mark.parametrize(
    ("preset", "num_parameters"),
    [
        ("1m", 1_088_256),
        ("10m", 10_183_680),
        ("gpt2-124m", 124_439_808),  # transformers' gpt2; nanoGPT prints 123.65M without the positions
        ("gpt2-355m", 354_823_168),  # transformers' gpt2-medium
        ("gpt3-1.3b", 1_315_723_264),  # OPT-1.3B's 1,315,758,080 less its 15 more tokens and 2 more positions, × 2048
        ("gpt3-175b", 174_604_259_328),  # Brown et al. 2020, appendix D: 174,600 million
        ("llama3-8b", 8_030_261_248),  # Meta-Llama-3-8B's published weights
        ("llama3-70b", 70_553_706_496),  # Meta-Llama-3-70B's
        ("llama3-405b", 405_853_388_800),  # Llama-3.1-405B's
    ],
)
def test_presets_have_the_published_number_of_parameters(preset: str, num_parameters: int) -> None:
    """Every preset is built on the meta device, in seconds and without memory, and counts what its source counts."""
    with torch.device("meta"):
        model = GPT(PRESETS[preset])
    assert sum(p.numel() for p in model.parameters()) == num_parameters


@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
def test_dense_and_fused_attention_agree(num_kv_heads: int) -> None:
    """The textbook form and PyTorch's fused one are the same function, however many heads share a key."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, heads, 19, 8, dtype=torch.float64) for heads in (4, num_kv_heads, num_kv_heads))
    for causal in (True, False):
        torch.testing.assert_close(dense_attention(q, k, v, causal=causal), sdpa_attention(q, k, v, causal=causal))


def test_dense_attention_aligns_a_short_query_to_the_last_token() -> None:
    """Fewer queries than keys are the last tokens, as in decoding: their rows equal the last rows of the whole."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 9, 8, dtype=torch.float64) for _ in range(3))
    torch.testing.assert_close(dense_attention(q[:, :, -3:], k, v), dense_attention(q, k, v)[:, :, -3:])


@pytest.mark.parametrize("config", [SMALL, SMALL_LLAMA], ids=["gpt2", "llama"])
def test_no_logit_depends_on_a_later_token(config: GPTConfig) -> None:
    """Changing token 10 leaves the logits of tokens 0 to 9 to the bit, and changes those from 10 on."""
    torch.manual_seed(0)
    model = GPT(config).eval()
    tokens = torch.randint(config.vocab_size, (1, 20))
    changed = tokens.clone()
    changed[0, 10] = (tokens[0, 10] + 1) % config.vocab_size
    with torch.no_grad():
        before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :10], after[:, :10])
    assert (before[:, 10:] != after[:, 10:]).flatten(2).any(dim=-1).all()


def test_a_slice_of_groups_is_a_complete_smaller_attention() -> None:
    """Rows of whole groups, cut out of qkv with the columns of `out` that belong to them, add up to the layer: what sharding rests on."""
    torch.manual_seed(0)
    config = dataclasses.replace(SMALL_LLAMA, positions="learned")
    whole = SelfAttention(config).double()
    x = torch.randn(2, 11, config.hidden_size, dtype=torch.float64)
    total = torch.zeros_like(x)
    for rows, columns in zip(whole.qkv.weight.chunk(2), whole.out.weight.chunk(2, dim=1), strict=True):
        part = SelfAttention(config).double()
        part.qkv.weight, part.out.weight = torch.nn.Parameter(rows), torch.nn.Parameter(columns)
        total += part(x)
    torch.testing.assert_close(total, whole(x))


def test_positions_may_be_given_for_a_part_of_the_sequence() -> None:
    """With rotary positions, the same tokens elsewhere give the same logits: only distances count. With learned ones they differ."""
    torch.manual_seed(0)
    for config, moves in ((SMALL_LLAMA, False), (SMALL, True)):
        model = GPT(config).double().eval()
        tokens = torch.randint(config.vocab_size, (1, 8))
        with torch.no_grad():
            here, there = model(tokens), model(tokens, positions_T=torch.arange(20, 28))
        # Angles are computed in fp32, whatever the model's dtype.
        assert torch.allclose(here, there, atol=1e-5) is not moves


def test_targets_of_minus_100_do_not_count() -> None:
    """The loss is the mean over the targets that are there."""
    torch.manual_seed(0)
    model = GPT(SMALL).double()
    tokens, targets = torch.randint(SMALL.vocab_size, (2, 2, 12)).unbind()
    targets = targets.clone()
    targets[:, 5:] = -100
    logits = model(tokens)[:, :5].flatten(0, 1)
    torch.testing.assert_close(model(tokens, targets), F.cross_entropy(logits, targets[:, :5].flatten()))


def test_flash_attention_is_the_students_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """attention="flash" calls flash_attention of the file flash_attention.py, with causal=True."""
    seen = []

    def flash_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False) -> torch.Tensor:
        seen.append(causal)
        return sdpa_attention(q, k, v, causal=causal)

    module = types.ModuleType("flash_attention")
    module.flash_attention = flash_attention  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flash_attention", module)
    GPT(dataclasses.replace(SMALL, attention="flash"))(torch.zeros(1, 4, dtype=torch.long))
    assert seen == [True] * SMALL.num_layers


@pytest.mark.parametrize(("stream", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_under_autocast_the_stream_is_as_wide_as_the_config_says(stream: str, dtype: torch.dtype) -> None:
    """What enters each block, and what its gradient comes back in; weights and their gradients are fp32 either way."""
    model = GPT(dataclasses.replace(SMALL, stream=stream))  # type: ignore[arg-type]
    seen: list[torch.dtype] = []
    for block in model.blocks:
        block.register_forward_pre_hook(lambda _, given: seen.append(given[0].dtype))
        block.register_full_backward_hook(lambda _, given, received: seen.append(received[0].dtype))
    tokens_BT = torch.arange(16).view(2, 8)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(tokens_BT, tokens_BT)
    loss.backward()
    assert seen == [dtype] * 2 * len(model.blocks)
    assert {loss.dtype, *(p.grad.dtype for p in model.parameters() if p.grad is not None)} == {torch.float32}


def test_what_joins_the_residual_stream_starts_smaller_with_depth() -> None:
    """Weights start with GPT-2's spread, those that end a branch with it over √(2 · layers), and biases at zero."""
    torch.manual_seed(0)
    config = dataclasses.replace(SMALL, hidden_size=256, num_layers=8, mlp_size=512)
    block = GPT(config).blocks[5]
    for weight, std in ((block.mlp.up.weight, INIT_STD), (block.mlp.down.weight, INIT_STD / 4), (block.attention.out.weight, INIT_STD / 4)):
        # The spread of n normal draws is known to 1/√(2n): 0.3 % for 65536, so 2 % is seven of those.
        assert abs(weight.std().item() / std - 1) < 0.02
    assert not block.mlp.up.bias.any()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"hidden_size": 50}, "hidden_size 50 is not divisible by num_heads 4"),
        ({"num_kv_heads": 3}, "num_heads 4 is not divisible by num_kv_heads 3"),
        ({"hidden_size": 52, "positions": "rotary"}, "head_dim must be even, not 13"),
    ],
)
def test_impossible_shapes_are_refused_with_the_reason(change: dict[str, object], sentence: str) -> None:
    """A config that no model can have says which two numbers clash."""
    with pytest.raises(ValueError, match=sentence):
        dataclasses.replace(SMALL, **change)  # type: ignore[arg-type]
