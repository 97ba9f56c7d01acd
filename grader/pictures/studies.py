"""Which laws have a picture that teaches, also of a run that was right, and the pictures of a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from grader.errors import CourseError
from grader.pictures import buckets, held, memory, pipelines, ring, roofline, traffic
from grader.records import LawMark, Outcome, Report, Request
from grader.store import Store

NUM_STUDIED = 24  # of a page: it stays small and quick to make
# What a probe says of a submission is the submission's: where it isn't what the picture is made of, there is none, and the law says why.
UNFIT = (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, CourseError)


@dataclass(frozen=True, slots=True)
class Study:
    """A law, and what is drawn of a run that it looked at."""

    law: str
    heading: str
    draw: Callable[[Request, Outcome], Any]
    template: str = "bars"


@dataclass(frozen=True, slots=True)
class Drawn:
    """A study's picture, of one observation."""

    law: LawMark
    study: Study
    request: Request
    picture: Any  # what the study's template draws


STUDIES = (
    Study("memory_accounting.states.weights_and_gradients_follow_the_precision", "States by kind", memory.draw_states),
    Study("memory_accounting.states.weights_and_gradients_follow_the_precision", "Memory over a step", held.draw_first_step, "columns"),
    Study("memory_accounting.activations.recomputation_keeps_inputs", "Activations", memory.draw_activations),
    Study("recomputation.sequential.peak_follows_the_square_root", "The peak and the square root", memory.draw_peaks),
    Study("recomputation.sequential.peak_follows_the_square_root", "Memory over forward and backward", held.draw_course, "columns"),
    Study("fused_kernels.rms_norm.reads_each_tensor_once", "RMSNorm under the roofline", roofline.draw, "roof"),
    Study("fused_kernels.bias_gelu.reads_each_tensor_once", "GELU under the roofline", roofline.draw, "roof"),
    Study("fused_kernels.cross_entropy.reads_the_logits_once", "Cross-entropy under the roofline", roofline.draw, "roof"),
    Study("flash_attention.forward.moves_the_bytes_of_its_blocks", "Attention's bytes", traffic.draw),
    Study("collectives.ring.sends_the_optimal_volume", "The ring, round by round", ring.draw, "ring"),
    Study("collectives.broadcast.is_pipelined", "The chain, round by round", ring.draw, "ring"),
    Study("collectives.recursive_doubling.takes_log2_rounds", "Recursive doubling, round by round", ring.draw, "ring"),
    Study("data_parallel.overlapped.step_takes_the_time_of_overlap", "Buckets against backward", buckets.draw),
    Study("sharded_data_parallel.zero1.holds_at_scale", "Memory over a step of ZeRO-1", held.draw_sharded, "columns"),
    Study("sharded_data_parallel.fsdp.holds_at_scale", "Memory over a step, fully sharded", held.draw_sharded, "columns"),
    Study("pipeline_parallel.gpipe.has_the_published_bubble", "Your GPipe", pipelines.draw_schedule),
    Study("pipeline_parallel.one_f_one_b.has_the_published_bubble", "Your 1F1B", pipelines.draw_schedule),
    Study("pipeline_parallel.interleaved.has_the_published_bubble", "Your interleaved 1F1B", pipelines.draw_schedule),
    Study("pipeline_parallel.zero_bubble.has_the_published_bubble", "Your backward in halves", pipelines.draw_schedule),
    Study("pipeline_parallel.executor.takes_the_time_of_the_schedule", "The run and its plan", pipelines.draw_run),
    Study("context_parallel.ring.keys_and_values_go_round_once", "Keys and values, round by round", ring.draw, "ring"),
)


def drawn(report: Report, store: Store) -> dict[str, list[Drawn]]:
    """The pictures by assignment: of each study the law's public case of most ranks that has one, a failed case before one that passed."""
    marks = {law.id: (each.name, law) for each in report.assignments for law in each.laws()}
    found: dict[str, list[Drawn]] = {each.name: [] for each in report.assignments}
    room = NUM_STUDIED
    for study in (study for study in STUDIES if study.law in marks and room):
        assignment, law = marks[study.law]
        made = next(_candidates(study, law, store), None)
        if made is not None:
            found[assignment].append(made)
            room -= 1
    return found


def _candidates(study: Study, law: LawMark, store: Store) -> Iterator[Drawn]:
    for outcome in ("failed", "passed"):
        keys = dict.fromkeys(key for case in law.cases if case.outcome == outcome and not case.hidden for key in case.keys)
        seen = [stored for key in keys if (stored := store.observation(key)) is not None]
        for request, ran in sorted(seen, key=lambda stored: (-stored[0].world_size, -len(stored[1].events))):
            try:
                picture = study.draw(request, ran)
            except UNFIT:
                picture = None
            if picture is not None:
                yield Drawn(law, study, request, picture)
