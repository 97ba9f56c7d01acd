"""Hidden cases of the laws of `recomputation`: other sizes, noises, dtypes, traps. What each law means: tests/laws/recomputation/."""

from __future__ import annotations

import pytest

from tests.laws.recomputation import accumulation, checkpoints, keeping

EVEN = [[4], [4], [4], [4]]
UNEVEN = [[1], [5, 5, 5], [3], [0, 2]]
PRODUCTS = ["mm.default"]


# --- accumulate ------------------------------------------------------------------------------------------------------
@pytest.mark.law("accumulate.gradients_equal_the_whole_batch")
@pytest.mark.parametrize("loss", ["cross_entropy", "squared"])
def test_accumulated_gradients_equal_the_whole_batch(observe, loss):
    """Four micro-batches of equally many tokens."""
    seen = accumulation.run_accumulated(observe, EVEN, loss=loss, kind=f"four micro-batches of equally many tokens, {loss}")
    accumulation.judge_gradients(seen)
    accumulation.judge_calls(seen)


@pytest.mark.law("accumulate.uneven_tokens_weigh_as_they_count")
@pytest.mark.parametrize("loss", ["cross_entropy", "squared", "distance"])
def test_uneven_tokens_weigh_as_they_count(observe, loss):
    """Micro-batches of 1, 15, 3 and 2 counted tokens."""
    accumulation.judge_gradients(accumulation.run_accumulated(observe, UNEVEN, loss=loss, kind=f"unequally many tokens, {loss}"))


@pytest.mark.law("accumulate.micro_batches_without_tokens_add_nothing")
@pytest.mark.parametrize("loss", ["cross_entropy", "squared"])
def test_micro_batches_without_tokens_add_nothing(observe, loss):
    """Padding first, last and in between, onto gradients that are there."""
    counts = [[0], [3, 1], [0, 0], [2], [0]]
    seen = accumulation.run_accumulated(observe, counts, loss=loss, with_gradients=True, kind=f"micro-batches of padding, {loss}")
    accumulation.judge_gradients(seen)
    accumulation.judge_mean(seen)


@pytest.mark.law("accumulate.adds_to_what_is_there")
def test_accumulation_adds_to_what_is_there(observe):
    """Onto gradients that are there, with uneven micro-batches and with nothing to add."""
    kind = "gradients that are there already"
    accumulation.judge_gradients(accumulation.run_accumulated(observe, UNEVEN, with_gradients=True, kind=kind))
    accumulation.judge_gradients(accumulation.run_accumulated(observe, [[0], [0]], with_gradients=True, kind=kind))


@pytest.mark.law("accumulate.holds_one_graph_at_a_time")
def test_accumulation_holds_one_graph_at_a_time(observe):
    """Six micro-batches of 24 MiB in 46 MiB."""
    seen = accumulation.run_large(observe, num_micro_batches=6, depth=6, room_mib=46, kind="six micro-batches, memory for one")
    accumulation.judge_large(seen)


@pytest.mark.law("accumulate.returns_the_mean_loss")
@pytest.mark.parametrize("loss", ["cross_entropy", "squared"])
def test_the_mean_loss_is_returned(observe, loss):
    """Over all counted tokens of uneven micro-batches."""
    accumulation.judge_mean(accumulation.run_accumulated(observe, UNEVEN, loss=loss, kind=f"unequally many tokens, {loss}"))


@pytest.mark.law("accumulate.learning_curve_equals_the_larger_batch")
def test_the_learning_curve_equals_the_larger_batch(observe):
    """Twelve steps on micro-batches of 1, 4 and 1 rows."""
    accumulation.judge_trained(accumulation.run_trained(observe, rows=[1, 4, 1], num_steps=12, kind="twelve steps, uneven micro-batches"))


# --- checkpoint ------------------------------------------------------------------------------------------------------
@pytest.mark.law("checkpoint.gradients_are_exact")
@pytest.mark.parametrize("used", [[0], [1], [0, 1], [1, 2]])
def test_checkpointed_gradients_are_exact_for_several_outputs(observe, used):
    """Each output alone, both, and one beside one that has no graph."""
    seen = checkpoints.run_several_outputs(observe, used, kind="several outputs, not all of them used")
    checkpoints.judge_several_outputs(seen)
    checkpoints.judge_calls(seen.facts(0)["calls"])


@pytest.mark.law("checkpoint.takes_any_arguments")
def test_checkpoint_takes_any_arguments(observe):
    """Other values of all arguments."""
    checkpoints.judge_arguments(observe, kind="None, numbers, strings, integers, keywords")


@pytest.mark.law("checkpoint.parameters_learn_without_differentiable_inputs")
def test_parameters_learn_without_differentiable_inputs(observe):
    """Other rows of an embedding."""
    checkpoints.judge_token_inputs(observe, kind="token numbers as the only argument")


@pytest.mark.law("checkpoint.keeps_inputs_only")
def test_checkpoint_keeps_inputs_only(observe):
    """Nothing of the inside, and a changed input is an error."""
    checkpoints.judge_overwritten(observe, kind="an input that is changed in place before backward")
    keeping.judge_kept(observe, "checkpoint", kind="what is kept between forward and backward")
    keeping.judge_kept(observe, "checkpoint", tokens=True, kind="what is kept beside token numbers")


@pytest.mark.law("checkpoint.fits_where_activations_do_not")
def test_checkpoints_fit_where_activations_do_not(observe):
    """Twelve functions that would keep 24 MiB each, in 160 MiB."""
    seen = keeping.run_large(
        observe, "checkpointed_large", num_functions=12, depth=6, room_mib=160, kind="twelve functions in little memory"
    )
    keeping.judge_large(seen, depth=72)


@pytest.mark.law("checkpoint.recomputes_exactly_once")
def test_checkpoint_recomputes_exactly_once(observe):
    """Two calls, every operation once more, for the right gradients."""
    seen = keeping.run_counted(observe, "checkpoint", kind="two products and some cheap operations")
    keeping.judge_counts(seen)
    keeping.judge_mixture(seen)
    keeping.judge_counts(keeping.run_counted(observe, "checkpoint", constant="x", kind="an argument that requires no grad"))


@pytest.mark.law("checkpoint.dropout_is_the_same_again")
@pytest.mark.parametrize(("noise", "in_between"), [("normal", "draw"), ("uniform", "seed"), ("dropout", "seed")])
def test_noise_is_the_same_again(observe, noise, in_between):
    """Other random numbers than dropout's, and a generator that was seeded anew before backward."""
    checkpoints.judge_noise(checkpoints.run_noisy(observe, noise, in_between, kind=f"{noise} noise, {in_between} before backward"))


@pytest.mark.law("checkpoint.generator_is_left_as_it_was")
@pytest.mark.parametrize(("noise", "in_between"), [("normal", "draw"), ("uniform", "seed")])
def test_the_generator_is_left_as_it_was(observe, noise, in_between):
    """After other noises, and with a generator that was seeded anew."""
    checkpoints.judge_generator(checkpoints.run_noisy(observe, noise, in_between, kind=f"{noise} noise, {in_between} before backward"))


@pytest.mark.law("checkpoint.autocast_is_as_it_was")
@pytest.mark.parametrize(("forward", "backward"), [("float16", "none"), ("bfloat16", "float16"), ("none", "float16")])
def test_autocast_is_as_it_was(observe, forward, backward):
    """To float16, and backward under an autocast to another dtype."""
    kind = f"autocast {forward} in forward, {backward} around backward"
    checkpoints.judge_autocast(observe, forward=forward, backward=backward, kind=kind)


@pytest.mark.law("checkpoint.nests")
def test_checkpoints_nest(observe):
    """A checkpoint inside another, other numbers."""
    checkpoints.judge_chain(observe, nested=True, kind="a checkpoint inside a checkpoint")


@pytest.mark.law("checkpoint.runs_plainly_without_gradients")
def test_checkpoint_runs_plainly_without_gradients(observe):
    """Under no_grad, other numbers."""
    checkpoints.judge_without_gradients(observe, kind="no_grad")


# --- sequential ------------------------------------------------------------------------------------------------------
@pytest.mark.law("sequential.gradients_are_exact")
@pytest.mark.parametrize(("num_layers", "num_segments"), [(7, 3), (1, 1), (9, 4)])
def test_sequential_gradients_are_exact(observe, num_layers, num_segments):
    """Numbers of segments that don't divide the layers, and a single layer."""
    kind = f"{num_layers} layers in {num_segments} segments"
    keeping.judge_sequence(keeping.run_sequence(observe, num_layers, num_segments, kind=kind))


@pytest.mark.law("sequential.segments_are_balanced")
@pytest.mark.parametrize(("num_layers", "num_segments"), [(7, 3), (9, 4), (11, 6)])
def test_segments_are_balanced(observe, num_layers, num_segments):
    """Numbers of segments that don't divide the layers."""
    kind = f"{num_layers} layers in {num_segments} segments"
    keeping.judge_segments(keeping.run_sequence(observe, num_layers, num_segments, kind=kind))


@pytest.mark.law("sequential.peak_follows_the_square_root")
def test_the_peak_follows_the_square_root(observe):
    """9, 25 and 100 layers."""
    keeping.judge_peaks(observe, [9, 25, 100], kind="9, 25 and 100 layers")


@pytest.mark.law("sequential.peak_follows_the_square_root")
def test_sequences_fit_where_activations_do_not(observe):
    """49 layers that would keep 196 MiB, in 132 MiB."""
    seen = keeping.run_large(observe, "sequence_large", num_layers=49, num_segments=7, room_mib=132, kind="49 layers in little memory")
    keeping.judge_large(seen, depth=49)


@pytest.mark.law("sequential.recomputes_each_layer_once")
@pytest.mark.parametrize(("num_layers", "num_segments"), [(7, 3), (1, 1)])
def test_each_layer_is_recomputed_once(observe, num_layers, num_segments):
    """Numbers of segments that don't divide the layers, and a single layer."""
    kind = f"{num_layers} layers in {num_segments} segments"
    keeping.judge_layer_runs(keeping.run_sequence(observe, num_layers, num_segments, kind=kind))


@pytest.mark.law("sequential.refuses_impossible_segments")
def test_impossible_segments_are_refused(observe):
    """-1 and 8 segments of 7 layers."""
    keeping.judge_impossible(observe, 7, [-1, 8, 70], kind="-1, 8 and 70 segments of 7 layers")


# --- selective -------------------------------------------------------------------------------------------------------
@pytest.mark.law("selective.gradients_are_exact")
@pytest.mark.parametrize("save", [[*PRODUCTS, "max.dim"], ["sin.default", "tanh.default"]], ids=["mixed", "cheap"])
def test_selective_gradients_are_exact(observe, save):
    """Products together with an operation of two outputs, and cheap operations only."""
    keeping.judge_mixture(keeping.run_counted(observe, "selective_checkpoint", save, kind=f"save {', '.join(save)}"))


@pytest.mark.law("selective.saved_operations_run_once")
@pytest.mark.parametrize("save", [[*PRODUCTS, "max.dim"], ["sin.default", "tanh.default"]], ids=["mixed", "cheap"])
def test_saved_operations_run_once(observe, save):
    """What is saved doesn't run again, all else does."""
    keeping.judge_counts(keeping.run_counted(observe, "selective_checkpoint", save, kind=f"save {', '.join(save)}"))


@pytest.mark.law("selective.keeps_what_it_was_told")
@pytest.mark.parametrize("save", [[*PRODUCTS, "max.dim"], ["sin.default", "tanh.default"]], ids=["mixed", "cheap"])
def test_selective_checkpoint_keeps_what_it_was_told(observe, save):
    """The arguments' memory and the outputs of the saved operations."""
    keeping.judge_kept(observe, "selective_checkpoint", save, kind=f"save {', '.join(save)}")


@pytest.mark.law("selective.saving_nothing_is_a_checkpoint")
def test_saving_nothing_is_a_checkpoint(observe):
    """Everything runs again, other numbers."""
    seen = keeping.run_counted(observe, "selective_checkpoint", [], kind="an empty save")
    keeping.judge_counts(seen)
    keeping.judge_mixture(seen)


@pytest.mark.law("selective.dropout_is_the_same_again")
@pytest.mark.parametrize("noise", ["normal", "uniform"])
def test_selective_noise_is_the_same_again(observe, noise):
    """Other noises behind a product that isn't run again, and a generator that was seeded anew."""
    way = {"way": "selective_checkpoint", "save": PRODUCTS, "kind": f"{noise} noise behind a saved product"}
    checkpoints.judge_noise(checkpoints.run_noisy(observe, noise, "seed", **way))
