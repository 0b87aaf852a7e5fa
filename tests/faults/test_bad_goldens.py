"""Goldens that are damaged, foreign, missing, unused or changed."""

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import ml_dtypes  # noqa: F401
import numpy as np
import pytest
from project import Project
from safetensors.numpy import load_file, save_file

from xla_equiv.values.verdict import ComparisonKind, Status

TENSORS, MANIFEST = "golden/tiny/loop[cpu].safetensors", "golden/tiny/loop[cpu].toml"


def truncate(share: float) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def flip(share: float, bit: int = 0) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[min(int(share * len(content)), len(content) - 1)] ^= 1 << bit
        path.write_bytes(bytes(content))

    return change


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def put_other(path: Path) -> None:
    shutil.copy(path.with_name(path.name.replace("loop", "other")), path)


def put_foreign(path: Path) -> None:
    save_file({"model.weight": np.ones((2, 3), dtype=np.float32)}, path)


def replace(old: str, new: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return change


DAMAGES = {
    "empty": (TENSORS, truncate(0.0), "is damaged"),
    "truncated in the header": (TENSORS, truncate(0.1), "is damaged"),
    "truncated in the data": (TENSORS, truncate(0.99), "is damaged"),
    "bit flipped in the length": (TENSORS, flip(0.0), "is damaged"),
    "bit flipped in the header": (TENSORS, flip(0.3, 1), "is damaged"),
    "bit flipped in the data": (TENSORS, flip(0.99, 3), "is damaged"),
    "last bit flipped": (TENSORS, flip(1.0, 7), "is damaged"),
    "a folder": (TENSORS, make_folder, "is damaged"),
    "without tensors": (TENSORS, Path.unlink, "is damaged"),
    "of another test": (TENSORS, put_other, "belongs to another test"),
    "foreign": (TENSORS, put_foreign, "is not a golden of this project"),
    "manifest missing": (MANIFEST, Path.unlink, "cannot read the golden's manifest"),
    "manifest truncated": (MANIFEST, truncate(0.5), ""),
    "manifest of another test": (MANIFEST, put_other, "belongs to another test"),
    "manifest of another format": (MANIFEST, replace("format = 1", "format = 99"), "has format 99"),
    "manifest with another loss": (
        MANIFEST,
        replace('losses = [\n    "0.', 'losses = [\n    "1.'),
        "its losses differ",
    ),
    "manifest with a stray entry": (MANIFEST, replace("format = 1", "format = 1\ncolour = 3"), "colour: "),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_golden_is_refused_before_anything_is_trained(accepted: Project, damage: str) -> None:
    name, change, text = DAMAGES[damage]
    change(accepted.root / name)
    ran = accepted.run("--out", "run")
    ran.refuses("GoldenError", "golden/tiny/loop[cpu].", text)
    assert not (accepted.root / "run").exists()
    assert accepted.xla_equiv("golden", "check").code == 4


def test_all_damaged_goldens_are_named_at_once(accepted: Project) -> None:
    for name in (TENSORS, TENSORS.replace("loop", "other")):
        flip(0.99)(accepted.root / name)
    ran = accepted.run()
    ran.refuses("GoldenError", "2 goldens cannot be used", "loop[cpu].safetensors", "other[cpu].safetensors")


def test_a_damaged_golden_of_a_test_that_is_not_run_is_not_in_the_way(accepted: Project) -> None:
    put_foreign(accepted.root / TENSORS.replace("loop", "other"))
    assert accepted.run("-k", "loop", "--out", "run").code == 0
    ran = accepted.xla_equiv("golden", "check")
    assert ran.code == 4
    assert "other[cpu].safetensors" in ran.out
    assert "loop[cpu]" not in ran.out


def test_under_pytest_a_damaged_golden_fails_its_test_only(accepted: Project) -> None:
    flip(0.99)(accepted.root / TENSORS.replace("loop", "other"))
    ran = accepted.pytest("suites", "--xe-report", "run")
    assert ran.code == 1
    assert "1 failed, 1 passed" in ran.out
    assert "GoldenError: the golden" in ran.out
    assert "other[cpu].safetensors is damaged" in ran.out


def test_a_missing_golden_fails_with_the_command_that_accepts_it(accepted: Project) -> None:
    for path in (TENSORS, MANIFEST):
        (accepted.root / path).unlink()
    ran = accepted.run("--out", "run")
    assert (ran.code, ran.err) == (4, "")
    assert "NOGOLDEN: tiny::loop[cpu] has no golden" in ran.out
    advice = next(line.split(maxsplit=1)[1] for line in ran.out.splitlines() if line.startswith("  next "))
    statuses = {test: verdict.status for test, verdict in accepted.verdicts().items()}
    assert statuses == {"tiny::loop[cpu]": Status.NOGOLDEN, "tiny::other[cpu]": Status.EXACT}
    assert not (accepted.root / TENSORS).exists()

    program, *arguments = shlex.split(advice)
    assert program == "xla-equiv"
    assert accepted.xla_equiv(*arguments).code == 0
    assert (accepted.root / TENSORS).exists()
    assert accepted.xla_equiv("golden", "check").code == 0


def test_an_unused_golden_is_named_and_can_be_pruned(accepted: Project) -> None:
    for suffix in (".safetensors", ".toml"):
        shutil.copy(accepted.root / f"golden/tiny/other[cpu]{suffix}", accepted.root / f"golden/tiny/old[cpu]{suffix}")
    shutil.copytree(accepted.root / "golden/tiny", accepted.root / "golden/gone", ignore=lambda *_: {"old[cpu].toml"})
    ran = accepted.run("--out", "run")
    assert ran.code == 4
    unused = {f"golden/{name}[cpu].safetensors" for name in ("tiny/old", "gone/old", "gone/loop", "gone/other")}
    assert {note.split()[2] for note in accepted.report().notes} == unused
    assert [line for line in unused if line not in ran.out] == []
    assert accepted.xla_equiv("golden", "check").code == 4
    assert accepted.xla_equiv("golden", "prune").code == 4
    assert (accepted.root / "golden/tiny/old[cpu].toml").exists()
    assert accepted.xla_equiv("golden", "prune", "--yes").code == 0
    assert accepted.xla_equiv("golden", "check").code == 0
    assert sorted(path.name for path in accepted.root.glob("golden/*/*.toml")) == ["loop[cpu].toml", "other[cpu].toml"]


def test_a_case_that_has_changed_makes_its_goldens_stale(accepted: Project) -> None:
    path = accepted.root / "suites" / "tiny.py"
    path.write_text(path.read_text().replace("lr=0.1", "lr=0.2").replace("torch.rand(4, 3)", "torch.rand(4, 3) * 2"))
    ran = accepted.run("--out", "run")
    assert ran.code == 4
    assert {verdict.status for verdict in accepted.verdicts().values()} == {Status.STALE}
    assert "the case has changed: optimizer is 'SGD(lr=0.2)', the golden has 'SGD(lr=0.1)'" in ran.out


KEY, STEP, INDEX = "grad/weight", 2, (1, 2)


@pytest.fixture(scope="module")
def changed(accepted_project: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project in which one gradient element of one golden is larger by a thousandth, and a run `strict`."""
    project = accepted_project.copy(tmp_path_factory.mktemp("changed") / "project")
    path = project.root / TENSORS.replace("loop", "other")
    arrays = load_file(path)
    arrays[f"{STEP}/{KEY}"][INDEX] *= 1 + 1e-3
    save_file(arrays, path)
    assert project.run("--out", "strict").code == 1
    return project


def test_a_changed_element_of_a_golden_is_named(changed: Project) -> None:
    ran = changed.xla_equiv("report", "strict")
    assert ran.code == 1
    assert "OUTSIDE: tiny::other[cpu] left its tolerance (regression against golden other[cpu].safetensors)" in ran.out
    assert f"where     step {STEP} · {KEY} · index {INDEX}" in ran.out
    assert "carries no seal" in ran.out
    verdict = changed.verdicts("strict")["tiny::other[cpu]"]
    comparison = next(one for one in verdict.comparisons if one.kind is ComparisonKind.REGRESSION)
    (finding,) = comparison.findings
    assert (finding.key, finding.step, finding.measurement and finding.measurement.index) == (KEY, STEP, INDEX)
    assert finding.measurement is not None
    assert finding.measurement.min_rtol == pytest.approx(1e-3, rel=0.05)
    assert changed.verdicts("strict")["tiny::loop[cpu]"].status is Status.EXACT


def test_a_looser_tolerance_lets_it_pass_and_the_report_says_who_decided(changed: Project) -> None:
    ran = changed.run("--rtol", "1e-2", "--out", "loose")
    assert (ran.code, ran.err) == (0, "")
    assert "command line [*]" in ran.out
    comparison = changed.verdicts("loose")["tiny::other[cpu]"].comparisons[1]
    group = next(group for group in comparison.groups if group.group == "grad/*")
    assert comparison.status is Status.WITHIN
    assert group.decided_by == ("rtol command line [*]; atol project default [float32]",)
    assert group.measurement.rtol == 1e-2


@pytest.mark.parametrize("option", ["--rtol", "--atol", "--tolerances"])
def test_a_run_that_was_judged_with_other_tolerances_is_not_accepted(accepted: Project, option: str) -> None:
    (accepted.root / "t.toml").write_text('[tolerance."loss"]\nrtol = 1e-2\nwhy = "a test"\n')
    value = "t.toml" if option == "--tolerances" else "loss=1e-2"
    assert accepted.run(option, value, "--out", "loose").code == 0
    before = {path: (accepted.root / path).read_bytes() for path in (TENSORS, MANIFEST)}
    accept = ("golden", "accept", "loose", "-k", "loop", "--why", "a test")
    ran = accepted.xla_equiv(*accept)
    ran.refuses("GoldenError", "nothing is accepted", f"the run was judged with {option} {value}", "--force REASON")
    assert {path: (accepted.root / path).read_bytes() for path in before} == before
    assert accepted.xla_equiv(*accept, "--force", "it is known").code == 0
    assert "it is known" in (accepted.root / MANIFEST).read_text()


def test_a_pytest_session_with_other_tolerances_is_not_accepted(accepted: Project) -> None:
    assert accepted.pytest("suites", "--xe-rtol", "1e-2", "--xe-report", "loose").code == 0
    ran = accepted.xla_equiv("golden", "accept", "loose", "--why", "a test")
    ran.refuses("GoldenError", "the run was judged with --rtol 1e-2")


def test_a_changed_golden_does_not_pass_the_check(changed: Project) -> None:
    ran = changed.xla_equiv("golden", "check")
    assert ran.code == 4
    assert "other[cpu].safetensors: carries no seal: another tool has rewritten it" in ran.out
    assert "2 goldens, 1 problems" in ran.out


def test_golden_diff_says_where_it_differs(changed: Project) -> None:
    ran = changed.xla_equiv("golden", "diff", "strict")
    assert ran.code == 4
    assert [line.split()[:3] for line in ran.out.splitlines() if "OUTSIDE" in line] == [
        ["tiny::other[cpu]", "grad/*", "OUTSIDE"]
    ]


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (["strict", "--why", ""], ["--why is empty"]),
        (["nowhere", "--why", "x"], []),
        (["strict", "--why", "x", "-k", "zzz"], ["nothing to accept"]),
    ],
)
def test_accepting_wants_a_run_a_test_and_a_reason(changed: Project, arguments: list[str], texts: list[str]) -> None:
    ran = changed.xla_equiv("golden", "accept", *arguments)
    assert ran.code == 2
    assert [text for text in texts if text not in ran.err] == []
