"""What a traced module computes again behind an optimization barrier."""

import pytest

from xla_equiv.execute.hlo import module_facts
from xla_equiv.execute.hlo_instructions import computations, live
from xla_equiv.execute.recomputation import recomputed

HEAD = "HloModule traced.1\n\nENTRY %main.1 (p0.1: f32[4,4], p1.2: f32[4,4]) -> f32[4,4] {\n"
BODY = """  %p0.1 = f32[4,4]{1,0} parameter(0)
  %p1.2 = f32[4,4]{1,0} parameter(1)
  %dot.3 = f32[4,4]{1,0} dot(%p0.1, %p1.2), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_type="aten__mm"}
  %tanh.4 = f32[4,4]{1,0} tanh(%dot.3)
  %tuple.5 = (f32[4,4]{1,0}, f32[4,4]{1,0}) tuple(%p0.1, %tanh.4)
  %opt-barrier.6 = (f32[4,4]{1,0}, f32[4,4]{1,0}) opt-barrier(%tuple.5)
  %get-tuple-element.7 = f32[4,4]{1,0} get-tuple-element(%opt-barrier.6), index=0
  %get-tuple-element.8 = f32[4,4]{1,0} get-tuple-element(%opt-barrier.6), index=1
  %dot.9 = f32[4,4]{1,0} dot(%get-tuple-element.7, %p1.2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %tanh.10 = f32[4,4]{1,0} tanh(%dot.9)
  ROOT %multiply.11 = f32[4,4]{1,0} multiply(%tanh.10, %get-tuple-element.8)
}
"""
MODULE = HEAD + BODY


def test_what_repeats_behind_a_barrier_is_counted_by_opcode() -> None:
    assert recomputed(MODULE) == {"dot": 1, "tanh": 1}


def test_without_a_barrier_nothing_is_recomputed() -> None:
    lines = [line for line in MODULE.splitlines() if "opt-barrier(" not in line]
    text = "\n".join(lines).replace("get-tuple-element(%opt-barrier.6)", "get-tuple-element(%tuple.5)")
    assert " dot(" in text
    assert recomputed(text) == {}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dot(%get-tuple-element.7, %p1.2)", "dot(%get-tuple-element.7, %get-tuple-element.8)"),
        ("dot(%get-tuple-element.7, %p1.2)", "dot(%p1.2, %get-tuple-element.7)"),
        ("%get-tuple-element.7, %p1.2), lhs_contracting_dims={1}", "%get-tuple-element.7, %p1.2), lhs_contracting_dims={0}"),
        ("%dot.9 = f32[4,4]{1,0}", "%dot.9 = bf16[4,4]{1,0}"),
    ],
    ids=["another operand", "another order", "other dimensions", "another type"],
)
def test_another_computation_is_not_a_repetition(old: str, new: str) -> None:
    assert old in MODULE
    assert recomputed(MODULE.replace(old, new))["dot"] == 0


def test_what_is_repeated_on_one_side_of_a_barrier_is_not_computed_again() -> None:
    again = "  %dot.20 = f32[4,4]{1,0} dot(%get-tuple-element.7, %p1.2), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    text = MODULE.replace("  %tanh.10 =", again + "  %tanh.10 =").replace("tanh(%dot.9)", "add(%dot.9, %dot.20)")
    assert recomputed(text) == {"dot": 1}


def test_what_two_barriers_keep_apart_is_computed_again() -> None:
    barrier = "  %opt-barrier.0 = f32[4,4]{1,0} opt-barrier(%p0.1)\n"
    text = MODULE.replace("  %dot.3 =", barrier + "  %dot.3 =").replace("dot(%p0.1,", "dot(%opt-barrier.0,")
    assert recomputed(text) == {"dot": 1, "tanh": 1}


def test_collectives_are_transparent_and_not_counted() -> None:
    text = MODULE.replace("tanh(%dot.3)", "all-gather(%dot.3), channel_id=1, dimensions={0}")
    text = text.replace("tanh(%dot.9)", "all-gather(%dot.9), channel_id=2, dimensions={0}")
    root = "multiply(%tanh.10, %get-tuple-element.8)"
    assert root in text
    assert recomputed(text) == {"dot": 1}
    last = "  %abs.30 = f32[4,4]{1,0} abs(%tanh.4)\n  %abs.31 = f32[4,4]{1,0} abs(%tanh.10)\n"
    text = text.replace("  ROOT", last + "  ROOT").replace(root, "multiply(%abs.31, %abs.30)")
    assert recomputed(text) == {"dot": 1, "abs": 1}


def test_random_numbers_are_never_the_same() -> None:
    text = MODULE.replace(" tanh(%dot.3)", " rng(%dot.3)").replace(" tanh(%dot.9)", " rng(%dot.9)")
    assert recomputed(text) == {"dot": 1}


def test_two_constants_of_one_value_are_the_same_and_of_two_are_not() -> None:
    for second, expected in (("1", 1), ("2", 0)):
        text = MODULE.replace("tanh(%dot.3)", "add(%dot.3, %one.21)").replace("tanh(%dot.9)", "add(%dot.9, %two.22)")
        constants = f"  %one.21 = f32[] constant(1)\n  %two.22 = f32[] constant({second})\n"
        assert recomputed(text.replace(HEAD, HEAD + constants))["add"] == expected


def test_reductions_are_the_same_when_their_computations_are() -> None:
    for second, expected in (("add", 1), ("maximum", 0)):
        sums = "".join(
            f"%{name} (a.{n}: f32[], b.{n}: f32[]) -> f32[] {{\n  %a.{n} = f32[] parameter(0)\n  %b.{n} = f32[] parameter(1)\n"
            f"  ROOT %r.{n} = f32[] {opcode}(%a.{n}, %b.{n})\n}}\n\n"
            for name, n, opcode in (("first.30", 31, "add"), ("second.40", 41, second))
        )
        text = MODULE.replace("tanh(%dot.3)", "reduce(%dot.3), to_apply=%first.30")
        text = text.replace("tanh(%dot.9)", "reduce(%dot.9), to_apply=%second.40")
        assert recomputed(text.replace("ENTRY", sums + "ENTRY"))["reduce"] == expected


def test_what_the_result_does_not_depend_on_is_dead_also_through_a_barrier() -> None:
    ((_, body),) = computations(MODULE)
    assert live(body) == body
    ((_, body),) = computations(MODULE.replace("multiply(%tanh.10, %get-tuple-element.8)", "negate(%tanh.10)"))
    assert {one.name for one in body} - {one.name for one in live(body)} == {"dot.3", "tanh.4", "get-tuple-element.8"}


def test_dead_instructions_are_not_recomputed() -> None:
    text = MODULE.replace("multiply(%tanh.10, %get-tuple-element.8)", "negate(%get-tuple-element.8)")
    assert recomputed(text) == {}
    assert module_facts("", text).traced_dots == {"f32": 1}


def test_the_facts_of_a_module_have_all_of_it() -> None:
    facts = module_facts(MODULE, MODULE, "Total bytes used: 128 (128B)\n\nAllocations sorted by size:\n")
    assert facts.traced == facts.opcodes
    assert (facts.dots, facts.traced_dots, facts.recomputed) == ({"f32": 2}, {"f32": 2}, {"dot": 1, "tanh": 1})
    assert facts.size_bytes == 128
    assert module_facts(MODULE).size_bytes == 0


@pytest.mark.parametrize(
    ("line", "counted"),
    [
        ("all-reduce(%p0.1), replica_groups={{0,1,2,3}}, to_apply=%add", {"all-reduce of 4": 1}),
        ("all-gather-start(%p0.1), replica_groups=[2,4]<=[8], dimensions={0}", {"all-gather of 4": 1}),
        ("reduce-scatter(%p0.1), replica_groups={}, dimensions={0}", {"reduce-scatter of all": 1}),
        ("all-reduce(%p0.1), replica_groups=mesh['x'], to_apply=%add", {"all-reduce of unknown": 1}),
        ("reduce(%p0.1), replica_groups={{0,1}}", {}),
    ],
)
def test_collectives_are_counted_by_the_devices_that_they_join(line: str, counted: dict[str, int]) -> None:
    assert module_facts(f"{HEAD}  ROOT %c.3 = f32[4,4]{{1,0}} {line}\n}}\n").collectives == counted


def test_constants_whose_values_are_not_written_are_never_the_same() -> None:
    text = MODULE.replace("tanh(%dot.3)", "add(%dot.3, %one.21)").replace("tanh(%dot.9)", "add(%dot.9, %two.22)")
    constants = "".join(f"  %{name} = f32[4,4]{{1,0}} constant({{...}})\n" for name in ("one.21", "two.22"))
    assert recomputed(text.replace(HEAD, HEAD + constants))["add"] == 0


def test_two_equal_instructions_behind_one_barrier_are_not_recomputed() -> None:
    twice = "  %dot.20 = f32[4,4]{1,0} dot(%get-tuple-element.8, %p1.2), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    text = MODULE.replace("  ROOT", twice + twice.replace("dot.20", "dot.21") + "  %a.23 = f32[4,4]{1,0} add(%dot.20, %dot.21)\n  ROOT")
    text = text.replace("%tanh.10, %get-tuple-element.8)", "%tanh.10, %a.23)")
    assert recomputed(text) == {"dot": 1, "tanh": 1}


def test_a_window_that_is_reduced_again_is_recomputed() -> None:
    text = MODULE.replace(" tanh(%dot.3)", " reduce-window(%dot.3)").replace(" tanh(%dot.9)", " reduce-window(%dot.9)")
    assert recomputed(text) == {"dot": 1, "reduce-window": 1}


def test_a_computation_of_another_thread_is_read() -> None:
    text = MODULE.replace("\n}\n", '\n}, execution_thread="host"\n') + MODULE.partition("\n\n")[2]
    assert module_facts(text).dots == {"f32": 4}
