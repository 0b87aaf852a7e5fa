"""What was compiled for each test, as a table and in one line."""

from dataclasses import replace

from xla_equiv.faces.graph_table import HEADERS, graph_rows, proof
from xla_equiv.faces.markdown import render_markdown
from xla_equiv.faces.terminal import drift_lines
from xla_equiv.store.report import Report
from xla_equiv.values.equivalence import Equivalence
from xla_equiv.values.graph import GraphFacts, ModuleFacts
from xla_equiv.values.verdict import Comparison, ComparisonKind, Status, Verdict

MODULE = ModuleFacts(
    "a" * 64,
    {"dot": 4, "while": 1},
    (3, 0),
    dots={"f32": 4},
    traced={"dot": 6, "opt-barrier": 2},
    traced_dots={"bf16": 5, "f32": 1},
    recomputed={"dot": 2, "tanh": 7},
    merged=3,
    collectives={"all-reduce of 4": 3},
    size_bytes=2048,
)
VERDICT = Verdict(test="suite::each[xla:cpu]", status=Status.EXACT, graph=GraphFacts((MODULE, MODULE)))


def test_a_row_has_the_facts_of_all_modules() -> None:
    (row,) = graph_rows([VERDICT, Verdict(test="suite::loop[cpu]", status=Status.EXACT)])
    assert dict(zip(HEADERS, row, strict=True)) == {
        "suite": "suite",
        "variant[backend]": "each[xla:cpu]",
        "modules": "2",
        "matrix products traced": "10 bf16, 2 f32",
        "optimised": "8 f32",
        "traced again": "4",
        "merged": "6",
        "barriers traced": "4",
        "kept": "-",
        "loops": "3 iterations, ? iterations",
        "collectives": "6 all-reduce of 4",
        "largest module": "2.0 KiB",
    }


def test_the_proof_stands_in_one_line() -> None:
    assert proof(VERDICT.graph) == (
        "10 bf16, 2 f32 matrix products, 8 f32 when optimised; 4 of them traced again, 6 merged; 4 barriers, 0 kept; "
        "loops of 3, 0; 6 all-reduce of 4; 2 modules"
    )
    assert proof(GraphFacts()) == "-"


def test_markdown_has_the_table() -> None:
    text = render_markdown(Report(created="2026", run="r", verdicts=(VERDICT,), exit_code=0))
    assert "## Compiled graphs" in text
    assert "10 bf16, 2 f32" in text


def test_what_falls_short_of_its_class_is_named_with_the_difference_of_graphs() -> None:
    comparison = Comparison(
        kind=ComparisonKind.EQUIVALENCE,
        against="loop[xla:cpu]",
        status=Status.DRIFT,
        graph="candidate has 4 more reshape (traced)",
        declared=Equivalence.BITWISE,
    )
    drifted = replace(VERDICT, status=Status.DRIFT, comparisons=(comparison,))
    (line,) = drift_lines([drifted, VERDICT])
    assert line.startswith("suite::each[xla:cpu] is declared bitwise, and uses 0 % of its tolerance")
    assert line.endswith("; candidate has 4 more reshape (traced)")
