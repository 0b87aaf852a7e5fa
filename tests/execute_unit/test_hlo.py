"""Facts from the text of an optimised HLO module."""

import re

import pytest

from xla_equiv.execute.hlo import module_facts

MODULE = """HloModule SyncTensorsGraph.40, is_scheduled=true, entry_computation_layout={(f32[4]{0}, s32[])->f32[4]{0}}

%body.7 (arg.1: (s32[], f32[4])) -> (s32[], f32[4]) {
  %arg.1 = (s32[], /*index=1*/f32[4]{0}) parameter(0)
  %i.2 = s32[] get-tuple-element(%arg.1), index=0, metadata={op_type="body" op_name="while/body" source_line=7}
  %x.3 = f32[4]{0} get-tuple-element(%arg.1), index=1
  %one.4 = s32[] constant(1)
  %next.5 = s32[] add(%i.2, %one.4)
  %double.6 = f32[4]{0} add(%x.3, %x.3), metadata={op_type="aten__add" source_file="model.py" source_line=12}
  ROOT %pair.8 = (s32[], f32[4]{0}) tuple(%next.5, %double.6)
}

%condition.9 (arg.2: (s32[], f32[4])) -> pred[] {
  %arg.2 = (s32[], f32[4]{0}) parameter(0)
  %i.10 = s32[] get-tuple-element(%arg.2), index=0
  %limit.11 = s32[] constant(4)
  ROOT %less.12 = pred[] compare(%i.10, %limit.11), direction=LT
}

ENTRY %main.40 (p0.1: f32[4], p1.2: s32[]) -> f32[4] {
  %p0.1 = f32[4]{0} parameter(0)
  %p1.2 = s32[] parameter(1)
  %start.13 = (s32[], f32[4]{0}) tuple(%p1.2, %p0.1)
  %loop.14 = (s32[], f32[4]{0}) while(%start.13), condition=%condition.9, body=%body.7, backend_config={"known_trip_count":{"n":"4"}}
  ROOT %out.15 = f32[4]{0} get-tuple-element(%loop.14), index=1
}
"""

UNKNOWN = MODULE.replace(', backend_config={"known_trip_count":{"n":"4"}}', "")


def fingerprint(text: str) -> str:
    return module_facts(text).fingerprint


def renamed(text: str) -> str:
    """Return `text` with every name under another name and number, as a later compilation writes it."""
    return re.sub(
        r"%([\w\-]+)\.(\d+)|([\w\-]+)\.(\d+)(?=: )",
        lambda found: f"{'%' * bool(found[1])}other_{found[1] or found[3]}.{100 + int(found[2] or found[4])}",
        text,
    )


PRODUCT = """HloModule one.9

ENTRY %main.9 (p0.1: f32[2,8,4], p1.2: f32[2,4,3]) -> f32[2,8,3] {
  %p0.1 = f32[2,8,4]{2,1,0} parameter(0)
  %p1.2 = f32[2,4,3]{2,1,0} parameter(1)
  ROOT %dot.3 = f32[2,8,3]{2,1,0} dot(%p0.1, %p1.2), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}
}
"""
REWRITTEN = PRODUCT.replace(" dot(", " custom(")


@pytest.mark.parametrize(
    ("rows", "summed", "columns", "merged"), [(8, 4, 3, 1), (1, 4, 3, 0), (8, 1, 3, 0), (8, 4, 1, 0), (1, 1, 1, 0)]
)
def test_a_lost_product_is_merged_unless_a_dimension_is_one(rows: int, summed: int, columns: int, merged: int) -> None:
    def sized(text: str) -> str:
        shapes = {"[2,8,4]": (rows, summed), "[2,4,3]": (summed, columns), "[2,8,3]": (rows, columns)}
        for old, sizes in shapes.items():
            text = text.replace(old, f"[2,{sizes[0]},{sizes[1]}]!")
        return text.replace("!", "")

    assert module_facts(sized(REWRITTEN), sized(PRODUCT)).merged == merged
    assert module_facts(sized(PRODUCT), sized(PRODUCT)).merged == 0


def test_nothing_is_merged_where_the_traced_module_is_not_known() -> None:
    assert module_facts(REWRITTEN).merged == 0


def test_the_arguments_are_counted_by_type() -> None:
    assert module_facts(MODULE).parameters == {"f32[4]": 1, "s32[]": 1}
    assert module_facts(MODULE.partition("\n")[2]).parameters == {}


def test_every_opcode_is_counted() -> None:
    assert module_facts(MODULE).opcodes == {
        "add": 2,
        "compare": 1,
        "constant": 2,
        "get-tuple-element": 4,
        "parameter": 4,
        "tuple": 2,
        "while": 1,
    }


def test_a_loop_of_known_length_has_its_trip_count() -> None:
    assert module_facts(MODULE).trip_counts == (4,)


def test_a_loop_of_unknown_length_counts_as_zero() -> None:
    found = module_facts(UNKNOWN)
    assert found.trip_counts == (0,)
    assert found.opcodes["while"] == 1


def test_every_loop_has_a_trip_count_in_order_also_as_the_root() -> None:
    line = next(line for line in MODULE.splitlines() if " while(" in line)
    unknown = line.replace('{"known_trip_count":{"n":"4"}}', '{"other":1}').replace("%loop.14 =", "%loop.16 =")
    root = line.replace("%loop.14", "ROOT %loop.17").replace('"4"', '"10"')
    assert module_facts(MODULE.replace(line, "\n".join([line, unknown, root]))).trip_counts == (4, 0, 10)


def test_a_module_without_a_loop_has_no_trip_count() -> None:
    text = "\n".join(line for line in MODULE.splitlines() if " while(" not in line)
    assert module_facts(text).trip_counts == ()
    assert "while" not in module_facts(text).opcodes


def test_words_that_look_like_opcodes_are_not_counted() -> None:
    text = MODULE.replace('op_name="while/body"', 'op_name="= f32[] while(x) sort(y)"')
    assert module_facts(text).opcodes == module_facts(MODULE).opcodes


@pytest.mark.parametrize(
    "line",
    [
        "  %a.1 = token[] after-all()",
        "  %a.1 = f32[] after-all(%b)",
        "  ROOT %a.1 = (f32[2]{0:T(256)}, u32[]) after-all(%b)",
        "  %a = bf16[2,3]{1,0} after-all(f32[2] %b)",
        "  %a-b.c_d = pred[] after-all(%b), calls=%c",
    ],
)
def test_an_instruction_in_any_form_is_counted(line: str) -> None:
    assert module_facts(f"HloModule a\n{line}\n").opcodes == {"after-all": 1}


def test_what_is_no_module_has_no_facts() -> None:
    found = module_facts("")
    assert (found.opcodes, found.trip_counts) == ({}, ())


def test_the_fingerprint_is_that_of_the_text() -> None:
    assert fingerprint(MODULE) == fingerprint(MODULE)
    assert re.fullmatch("[0-9a-f]{64}", fingerprint(MODULE))


def test_the_fingerprint_does_not_see_metadata() -> None:
    stripped = re.sub(r", metadata=\{.*?\}", "", MODULE)
    assert stripped != MODULE
    assert fingerprint(stripped) == fingerprint(MODULE)
    assert fingerprint(MODULE.replace("source_line=12", "source_line=13")) == fingerprint(MODULE)


def test_the_fingerprint_does_not_see_the_header() -> None:
    assert fingerprint(MODULE.replace("SyncTensorsGraph.40", "SyncTensorsGraph.41", 1)) == fingerprint(MODULE)


def test_the_fingerprint_does_not_see_names() -> None:
    assert renamed(MODULE) != MODULE
    assert fingerprint(renamed(MODULE)) == fingerprint(MODULE)


def test_the_fingerprint_does_not_see_the_names_of_parameters_in_the_head_of_a_computation() -> None:
    numbered = MODULE.replace("arg.1", "arg.101").replace("p0.1", "p0.101").replace("p1.2", "p1.102")
    assert fingerprint(numbered) == fingerprint(MODULE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("constant(1)", "constant(2)"),
        ("add(%x.3, %x.3)", "multiply(%x.3, %x.3)"),
        ("add(%x.3, %x.3)", "add(%x.3, %i.2)"),
        ("direction=LT", "direction=LE"),
        ('"n":"4"', '"n":"5"'),
        ("f32[4]{0} add", "bf16[4]{0} add"),
        ("tuple(%p1.2, %p0.1)", "tuple(%p0.1, %p1.2)"),
    ],
)
def test_the_fingerprint_sees_what_is_computed(old: str, new: str) -> None:
    assert old in MODULE
    assert fingerprint(MODULE.replace(old, new)) != fingerprint(MODULE)
