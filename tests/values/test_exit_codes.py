"""What the statuses of verdicts mean for the run."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_equiv.values.verdict import Expectation, Status, Verdict, exit_code, worst

NUMERIC, COULD_NOT_RUN, GOLDEN = 1, 3, 4
CODES = {
    Status.EXACT: 0,
    Status.WITHIN: 0,
    Status.DRIFT: 0,
    Status.UNVERIFIED: None,  # counted apart
    Status.NOGOLDEN: GOLDEN,
    Status.STALE: GOLDEN,
    Status.BLIND: NUMERIC,
    Status.UNPROVEN: NUMERIC,
    Status.UNSTABLE: NUMERIC,
    Status.OUTSIDE: NUMERIC,
    Status.MISSING: NUMERIC,
    Status.NONFINITE: NUMERIC,
    Status.TIMEOUT: COULD_NOT_RUN,
    Status.CRASHED: COULD_NOT_RUN,
}


def verdict(status: Status, expectation: Expectation = Expectation.NONE) -> Verdict:
    return Verdict(test="a::b[c]", status=status, expectation=expectation)


def code_of(statuses: tuple[Status, ...]) -> int:
    codes = {CODES[status] for status in statuses} - {None}
    return next((code for code in (NUMERIC, COULD_NOT_RUN, GOLDEN, 0) if code in codes), COULD_NOT_RUN)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_gravest_kind_of_a_mix_decides(count: int) -> None:
    for statuses in itertools.product(Status, repeat=count):
        assert exit_code([verdict(status) for status in statuses]) == code_of(statuses), statuses


def test_a_run_that_judged_nothing_is_not_green() -> None:
    assert exit_code([]) == COULD_NOT_RUN
    assert exit_code([verdict(Status.UNVERIFIED)] * 3) == COULD_NOT_RUN


def test_a_skip_beside_something_judged_is_green() -> None:
    assert exit_code([verdict(Status.UNVERIFIED), verdict(Status.WITHIN)]) == 0


@pytest.mark.parametrize("status", [status for status in Status if not status.is_green])
def test_a_failure_that_is_expected_is_green(status: Status) -> None:
    assert verdict(status, Expectation.MET).is_green
    assert exit_code([verdict(status, Expectation.MET)]) == 0


@pytest.mark.parametrize("status", list(Status))
def test_an_expected_failure_that_does_not_occur_fails_the_run(status: Status) -> None:
    missed = verdict(status, Expectation.NOT_MET)
    assert not missed.is_green
    assert exit_code([missed, verdict(Status.CRASHED), verdict(Status.STALE)]) == NUMERIC


@pytest.mark.parametrize("status", list(Status))
def test_green_statuses_are_agreement_and_nothing_else(status: Status) -> None:
    assert verdict(status).is_green is (status in (Status.EXACT, Status.WITHIN, Status.DRIFT))
    assert verdict(status).is_skip is (status is Status.UNVERIFIED)


def test_an_absent_backend_that_was_expected_to_fail_is_no_skip() -> None:
    assert not verdict(Status.UNVERIFIED, Expectation.NOT_MET).is_skip


@given(st.lists(st.sampled_from(list(Status))))
@settings(deadline=None)
def test_the_worst_status_is_green_only_when_all_are(statuses: list[Status]) -> None:
    assert worst(statuses).is_green is all(status.is_green for status in statuses)
    assert not statuses or worst(statuses) in statuses


def test_the_worst_of_nothing_is_exact() -> None:
    assert worst([]) is Status.EXACT
