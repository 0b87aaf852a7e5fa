"""The tests that suites stand for, their names, and which rules of the suite hold for them."""

from made_suites import case, named, suite, variant

from xla_equiv import ExpectedFailure, PublishedValues, Skip, Status, Tolerance
from xla_equiv.values.plan import Test, expand

CASES = {"deep": case(), "wide": case(steps=5)}


def by_label(**changes: object) -> dict[str, Test]:
    return {test.label: test for test in expand([named(suite(**changes))])}


def test_every_variant_of_every_case_is_a_test_the_reference_first() -> None:
    tests = list(expand([named(suite(case=CASES)), named(suite(), "other")]))
    assert [test.id for test in tests] == [
        "mlp::deep.loop[cpu]",
        "mlp::deep.loop[xla:cpu]",
        "mlp::deep.while[xla:cpu]",
        "mlp::wide.loop[cpu]",
        "mlp::wide.loop[xla:cpu]",
        "mlp::wide.while[xla:cpu]",
        "other::loop[cpu]",
        "other::loop[xla:cpu]",
        "other::while[xla:cpu]",
    ]
    assert [test.is_reference for test in tests] == [True, False, False] * 3


def test_no_id_has_an_at_sign() -> None:
    assert not [label for label in by_label(case=CASES) if "@" in label]


def test_the_reference_of_a_test_is_of_its_own_case() -> None:
    tests = by_label(case=CASES)
    assert tests["wide.while[xla:cpu]"].reference == tests["wide.loop[cpu]"]
    assert tests["wide.loop[cpu]"].reference == tests["wide.loop[cpu]"]
    assert tests["wide.while[xla:cpu]"].case.steps == 5


def test_a_known_failure_belongs_to_the_tests_that_its_pattern_covers() -> None:
    fault = ExpectedFailure(test="wide.while[*]", status=Status.OUTSIDE, keys="carried/*", why="known")
    tests = by_label(case=CASES, expected_failures=[fault])
    assert [label for label, test in tests.items() if test.expected_failure] == ["wide.while[xla:cpu]"]
    assert fault.covers("carried/1")
    assert not fault.covers("grad/a")


def test_skips_and_published_values_belong_to_the_tests_that_their_patterns_cover() -> None:
    tolerance = Tolerance(rtol=1e-6, why="printed to seven digits")
    published = PublishedValues(source="a paper", test="*.loop[cpu]", values={"loss": [1.0]}, tolerance=tolerance)
    tests = by_label(case=CASES, skips=[Skip(test="deep*", why="senseless")], published=[published])
    assert [label for label, test in tests.items() if not test.skip and test.published] == ["wide.loop[cpu]"]
    assert [label for label, test in tests.items() if test.skip] == [label for label in tests if label[:4] == "deep"]


def test_the_rules_of_a_case_are_stronger_than_those_of_its_suite() -> None:
    tests = by_label(
        case=CASES,
        record={"*": None, "param/*": (1,)},
        case_record={"deep": {"param/*": ()}},
        golden={"*": (-1,)},
        case_golden={"deep": {"loss": (2,)}},
    )
    assert tests["deep.loop[cpu]"].recorded_keys == {"*": None, "param/*": ()}
    assert tests["wide.loop[cpu]"].recorded_keys == {"*": None, "param/*": (1,)}
    assert tests["deep.loop[cpu]"].golden_keys == {"*": (-1,), "loss": (2,)}
    assert tests["wide.loop[cpu]"].golden_keys == {"*": (-1,)}


def test_variants_of_one_name_on_two_backends_are_two_tests() -> None:
    tests = by_label(candidates=[variant(backend="xla:cpu"), variant(backend="xla:tpu")])
    assert list(tests) == ["loop[cpu]", "loop[xla:cpu]", "loop[xla:tpu]"]
