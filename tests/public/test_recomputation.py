"""Public cases of the laws of `recomputation`. What each law means stands in tests/laws/recomputation/."""

from __future__ import annotations

import pytest

from tests.laws.recomputation import accumulation, checkpoints, keeping

EVEN = [[5, 5], [5, 5], [5, 5]]
UNEVEN = [[5, 4], [1], [2, 1, 4]]  # 17 in all: no weight is exact


# --- accumulate ------------------------------------------------------------------------------------------------------
@pytest.mark.law("accumulate.gradients_equal_the_whole_batch")
@pytest.mark.parametrize("counts", [EVEN, [[5], [5]], [[3, 5]]], ids=["three", "two", "one"])
def test_accumulated_gradients_equal_the_whole_batch(observe, counts):
    """Three, two and one micro-batch of equally many tokens."""
    seen = accumulation.run_accumulated(observe, counts)
    accumulation.judge_gradients(seen)
    accumulation.judge_calls(seen)


@pytest.mark.law("accumulate.uneven_tokens_weigh_as_they_count")
@pytest.mark.parametrize("loss", ["cross_entropy", "squared", "distance"])
def test_uneven_tokens_weigh_as_they_count(observe, loss):
    """Micro-batches of 9, 1 and 7 counted tokens, and of 2, 1 and 3 rows; the targets of a distance are real numbers."""
    accumulation.judge_gradients(accumulation.run_accumulated(observe, UNEVEN, loss=loss))


@pytest.mark.law("accumulate.micro_batches_without_tokens_add_nothing")
@pytest.mark.parametrize("counts", [[[5], [0, 0], [2]], [[0], [0, 0]], [[0, 0]]], ids=["one", "all", "the_only_one"])
@pytest.mark.parametrize("loss", ["cross_entropy", "squared"])
def test_micro_batches_without_tokens_add_nothing(observe, counts, loss):
    """One micro-batch of padding among others, and nothing but padding; of one loss there the gradients are NaN too."""
    seen = accumulation.run_accumulated(observe, counts, loss=loss)
    accumulation.judge_gradients(seen)
    accumulation.judge_mean(seen)


@pytest.mark.law("accumulate.micro_batches_without_tokens_add_nothing")
def test_a_diverged_micro_batch_is_no_padding(observe):
    """A loss of NaN where targets count comes out as NaN."""
    accumulation.judge_diverged(accumulation.run_accumulated(observe, [[5], [0], [2]], diverged=True))


@pytest.mark.law("accumulate.adds_to_what_is_there")
def test_accumulation_adds_to_what_is_there(observe):
    """The parameters have gradients already."""
    accumulation.judge_gradients(accumulation.run_accumulated(observe, EVEN, with_gradients=True))


@pytest.mark.law("accumulate.holds_one_graph_at_a_time")
def test_accumulation_holds_one_graph_at_a_time(observe):
    """Four micro-batches that keep 32 MiB each, in 64 MiB."""
    accumulation.judge_large(accumulation.run_large(observe, num_micro_batches=4, depth=8, room_mib=64))


@pytest.mark.law("accumulate.returns_the_mean_loss")
@pytest.mark.parametrize("counts", [EVEN, UNEVEN], ids=["even", "uneven"])
def test_the_mean_loss_is_returned(observe, counts):
    """Over all counted tokens, detached."""
    accumulation.judge_mean(accumulation.run_accumulated(observe, counts))


@pytest.mark.law("accumulate.learning_curve_equals_the_larger_batch")
def test_the_learning_curve_equals_the_larger_batch(observe):
    """Eight steps of SGD on micro-batches of 2, 1 and 3 rows with unequally many tokens."""
    accumulation.judge_trained(accumulation.run_trained(observe, rows=[2, 1, 3], num_steps=8))


# --- checkpoint ------------------------------------------------------------------------------------------------------
@pytest.mark.law("checkpoint.gradients_are_exact")
def test_checkpointed_gradients_are_exact(observe):
    """Of an input, of a weight that is an argument and of one that isn't."""
    checkpoints.judge_chain(observe)


@pytest.mark.law("checkpoint.gradients_are_exact")
@pytest.mark.parametrize("used", [[0, 1], [1], [0, 2], [2]], ids=["both", "second", "without a graph", "without a graph alone"])
def test_checkpointed_gradients_are_exact_for_several_outputs(observe, used):
    """Five outputs, one of integers, one without a graph and one with an infinite slope; some of the others used."""
    checkpoints.judge_several_outputs(checkpoints.run_several_outputs(observe, used))


@pytest.mark.law("checkpoint.gradients_are_exact")
def test_a_tensor_may_be_given_twice(observe):
    """Its gradient is the sum of both places'."""
    checkpoints.judge_given_twice(observe)


@pytest.mark.law("checkpoint.takes_any_arguments")
def test_checkpoint_takes_any_arguments(observe):
    """None, a number, a string and integers; tensors by position and by keyword."""
    checkpoints.judge_arguments(observe)


@pytest.mark.law("checkpoint.parameters_learn_without_differentiable_inputs")
def test_parameters_learn_without_differentiable_inputs(observe):
    """An embedding, whose only argument is token numbers."""
    checkpoints.judge_token_inputs(observe)


@pytest.mark.law("checkpoint.parameters_learn_without_differentiable_inputs")
def test_parameters_learn_without_any_inputs(observe):
    """A function that is given nothing."""
    checkpoints.judge_token_inputs(observe, arguments=0)


@pytest.mark.law("checkpoint.keeps_inputs_only")
def test_checkpoint_keeps_inputs_only(observe):
    """The arguments' own memory, nothing of the inside, and nothing after backward."""
    keeping.judge_kept(observe, "checkpoint")


@pytest.mark.law("checkpoint.keeps_inputs_only")
def test_checkpoint_keeps_token_numbers_only(observe):
    """Where no argument requires grad: the token numbers' memory, nothing of the inside."""
    keeping.judge_kept(observe, "checkpoint", tokens=True)


@pytest.mark.law("checkpoint.keeps_inputs_only")
def test_checkpoint_keeps_constants_only(observe):
    """Where the arguments are floats that require no grad: their memory, nothing of the inside."""
    keeping.judge_kept(observe, "checkpoint", constants=True)


@pytest.mark.law("checkpoint.keeps_inputs_only")
def test_a_changed_input_is_an_error(observe):
    """What save_for_backward keeps may not be changed in place."""
    checkpoints.judge_overwritten(observe)


@pytest.mark.law("checkpoint.fits_where_activations_do_not")
def test_checkpoints_fit_where_activations_do_not(observe):
    """Eight functions that would keep 32 MiB each, in 144 MiB."""
    seen = keeping.run_large(observe, "checkpointed_large", num_functions=8, depth=8, room_mib=144)
    keeping.judge_large(seen, depth=64)


@pytest.mark.law("checkpoint.recomputes_exactly_once")
def test_checkpoint_recomputes_exactly_once(observe):
    """Two calls, every operation of the forward once more, its FLOPs once more."""
    keeping.judge_counts(keeping.run_counted(observe, "checkpoint"))


@pytest.mark.law("checkpoint.recomputes_exactly_once")
def test_constants_cost_no_flops_in_backward(observe):
    """An argument that requires no grad: no arithmetic for a gradient that nobody takes."""
    keeping.judge_counts(keeping.run_counted(observe, "checkpoint", constant="w"))


@pytest.mark.law("checkpoint.recomputes_exactly_once")
def test_several_outputs_are_recomputed_once(observe):
    """Two calls, however many outputs are used."""
    checkpoints.judge_calls(checkpoints.run_several_outputs(observe, [0, 1]).facts(0)["calls"])


@pytest.mark.law("checkpoint.recomputes_exactly_once")
def test_the_inside_of_a_nested_checkpoint_runs_three_times(observe):
    """In forward, in the outer recomputation, and in its own: else the outer one would hold what it makes inside."""
    checkpoints.judge_calls(checkpoints.judge_chain(observe, nested=True).facts(0)["calls"], in_backward=2)


@pytest.mark.law("checkpoint.dropout_is_the_same_again")
@pytest.mark.parametrize("in_between", ["nothing", "draw"])
def test_dropout_is_the_same_again(observe, in_between):
    """The gradients have the output's mask, also when others drew numbers before backward."""
    checkpoints.judge_noise(checkpoints.run_noisy(observe, "dropout", in_between))


@pytest.mark.law("checkpoint.generator_is_left_as_it_was")
@pytest.mark.parametrize("in_between", ["nothing", "draw", "seed"])
def test_the_generator_is_left_as_it_was(observe, in_between):
    """The next random numbers after backward are those that were next before it."""
    checkpoints.judge_generator(checkpoints.run_noisy(observe, "dropout", in_between))


@pytest.mark.law("checkpoint.autocast_is_as_it_was")
@pytest.mark.parametrize(("forward", "backward"), [("bfloat16", "none"), ("none", "bfloat16")])
def test_autocast_is_as_it_was(observe, forward, backward):
    """Forward under autocast and backward outside, and the other way round."""
    checkpoints.judge_autocast(observe, forward=forward, backward=backward)


@pytest.mark.law("checkpoint.nests")
def test_checkpoints_nest(observe):
    """A checkpoint inside another gives the same gradients."""
    checkpoints.judge_chain(observe, nested=True)


@pytest.mark.law("checkpoint.runs_plainly_without_gradients")
def test_checkpoint_runs_plainly_without_gradients(observe):
    """Under no_grad: one call, no graph."""
    checkpoints.judge_without_gradients(observe)


# --- sequential ------------------------------------------------------------------------------------------------------
@pytest.mark.law("sequential.gradients_are_exact")
@pytest.mark.parametrize(("num_layers", "num_segments"), [(6, 2), (5, 5), (4, 1)])
def test_sequential_gradients_are_exact(observe, num_layers, num_segments):
    """Layers in segments of three, of one, and all in one."""
    keeping.judge_sequence(keeping.run_sequence(observe, num_layers, num_segments))


@pytest.mark.law("sequential.segments_are_balanced")
@pytest.mark.parametrize(("num_layers", "num_segments"), [(6, 2), (8, 3)])
def test_segments_are_balanced(observe, num_layers, num_segments):
    """Six layers in two segments; eight in three, of which the first two are longer."""
    keeping.judge_segments(keeping.run_sequence(observe, num_layers, num_segments))


@pytest.mark.law("sequential.peak_follows_the_square_root")
def test_the_peak_follows_the_square_root(observe):
    """4, 16, 36 and 64 layers: no more than 2√L tensors, and one on its way."""
    keeping.judge_peaks(observe, [4, 16, 36, 64])


@pytest.mark.law("sequential.peak_follows_the_square_root")
def test_sequences_fit_where_activations_do_not(observe):
    """64 layers that would keep 256 MiB, in 144 MiB."""
    seen = keeping.run_large(observe, "sequence_large", num_layers=64, num_segments=8, room_mib=144)
    keeping.judge_large(seen, depth=64)


@pytest.mark.law("sequential.recomputes_each_layer_once")
@pytest.mark.parametrize(("num_layers", "num_segments"), [(6, 2), (8, 3)])
def test_each_layer_is_recomputed_once(observe, num_layers, num_segments):
    """Each layer runs once in forward and once in backward, those of the last segment too."""
    keeping.judge_layer_runs(keeping.run_sequence(observe, num_layers, num_segments))


@pytest.mark.law("sequential.refuses_impossible_segments")
def test_impossible_segments_are_refused(observe):
    """0 and 5 segments of 4 layers raise ValueError."""
    keeping.judge_impossible(observe, 4, [0, 5])


# --- selective -------------------------------------------------------------------------------------------------------
@pytest.mark.law("selective.gradients_are_exact")
@pytest.mark.parametrize("save", [["mm.default"], ["max.dim", "tanh.default"]], ids=["products", "others"])
def test_selective_gradients_are_exact(observe, save):
    """Whether products are saved, or an operation with two outputs and one that is cheap."""
    keeping.judge_mixture(keeping.run_counted(observe, "selective_checkpoint", save))


@pytest.mark.law("selective.gradients_are_exact")
def test_selective_checkpoint_takes_and_gives_what_checkpoint_does(observe):
    """Any arguments, several outputs, and under no_grad a plain call."""
    way = {"way": "selective_checkpoint", "save": ["mm.default", "sin.default"]}
    checkpoints.judge_arguments(observe, **way)
    checkpoints.judge_several_outputs(checkpoints.run_several_outputs(observe, [0], **way))
    checkpoints.judge_without_gradients(observe, **way)


@pytest.mark.law("selective.saved_operations_run_once")
@pytest.mark.parametrize("save", [["mm.default"], ["max.dim", "tanh.default"]], ids=["products", "others"])
def test_saved_operations_run_once(observe, save):
    """What is saved doesn't run again, all else does."""
    keeping.judge_counts(keeping.run_counted(observe, "selective_checkpoint", save))


@pytest.mark.law("selective.keeps_what_it_was_told")
@pytest.mark.parametrize("save", [["mm.default"], ["max.dim", "tanh.default"]], ids=["products", "others"])
def test_selective_checkpoint_keeps_what_it_was_told(observe, save):
    """The arguments' memory and the outputs of the saved operations."""
    keeping.judge_kept(observe, "selective_checkpoint", save)


@pytest.mark.law("selective.saving_nothing_is_a_checkpoint")
def test_saving_nothing_is_a_checkpoint(observe):
    """Everything runs again, nothing but the arguments is kept."""
    seen = keeping.run_counted(observe, "selective_checkpoint", [])
    keeping.judge_mixture(seen)
    keeping.judge_counts(seen)
    keeping.judge_kept(observe, "selective_checkpoint", [])


@pytest.mark.law("selective.dropout_is_the_same_again")
def test_selective_dropout_is_the_same_again(observe):
    """Dropout behind a product that isn't run again."""
    checkpoints.judge_noise(checkpoints.run_noisy(observe, "dropout", "draw", way="selective_checkpoint", save=["mm.default"]))
