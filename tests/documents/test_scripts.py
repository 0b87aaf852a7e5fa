"""ci/: the scripts are well-formed, say what is wrong, install once, and pass on what they are given."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tomlkit
from markdown_blocks import ROOT

SCRIPTS = sorted([*(ROOT / "ci").glob("*.sh"), ROOT / ".ci" / "run"])
WORKFLOW = ROOT / ".github" / "workflows" / "equivalence.yml"
BASH = shutil.which("bash") or "bash"

FAKE_PYTHON = f"""#!{BASH}
# A Python that makes environments without content, in half a second, and takes note of every installation.
if [[ "$1 $2" == "-m venv" ]]; then
    folder="${{!#}}"
    mkdir -p "$folder/bin"
    "{sys.executable}" -c 'import platform; print("version =", platform.python_version())' > "$folder/pyvenv.cfg"
    printf '#!{BASH}\\necho "$@" >> "%s"\\nsleep 0.5\\n' "$NOTES" > "$folder/bin/python"
    chmod +x "$folder/bin/python"
else
    exec "{sys.executable}" "$@"
fi
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with the scripts and pyproject.toml only, and a Python that installs nothing."""
    shutil.copytree(ROOT / "ci", tmp_path / "ci")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    executable(tmp_path / "python", FAKE_PYTHON)
    return tmp_path


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def environment(checkout: Path, **variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XLA_EQUIV_", "GITHUB_", "PYTHON"))}
    return {**kept, "PYTHON": str(checkout / "python"), "NOTES": str(checkout / "notes"), **variables}


def start(checkout: Path, script: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", str(checkout / "ci" / script), *arguments],
        env=environment(checkout, **variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(checkout: Path, script: str, *arguments: str, **variables: str) -> tuple[int, str, str]:
    process = start(checkout, script, *arguments, **variables)
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


def installations(checkout: Path) -> list[str]:
    notes = checkout / "notes"
    return notes.read_text().splitlines() if notes.exists() else []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_well_formed(script: Path) -> None:
    text = script.read_text()
    assert text.startswith("#!/usr/bin/env bash\n# ")
    assert "\nset -euo pipefail\n" in text
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", script], check=True)


def test_the_environment_is_made_once_and_again_when_the_project_changes(checkout: Path) -> None:
    for _ in range(2):
        code, output, errors = run(checkout, "environment.sh")
        assert (code, output) == (0, f"{checkout}/.venv/bin\n"), errors
    assert len(installations(checkout)) == 1
    assert installations(checkout)[0].endswith("--editable .[dev]")
    with (checkout / "pyproject.toml").open("a") as stream:
        stream.write("# changed\n")
    run(checkout, "environment.sh")
    assert len(installations(checkout)) == 2
    run(checkout, "environment.sh", "dev", "tpu")
    assert installations(checkout)[2].endswith("--editable .[dev,tpu]")


def test_two_that_start_at_once_install_once(checkout: Path) -> None:
    both = [start(checkout, "environment.sh", XLA_EQUIV_VENV=str(checkout / "shared")) for _ in range(2)]
    outputs = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert len(installations(checkout)) == 1


def test_a_failed_installation_is_tried_again(checkout: Path) -> None:
    broken = FAKE_PYTHON.replace("sleep 0.5", "exit 7")
    executable(checkout / "python", broken)
    assert run(checkout, "environment.sh")[0] == 7
    executable(checkout / "python", FAKE_PYTHON)
    assert run(checkout, "environment.sh")[0] == 0
    assert len(installations(checkout)) == 2


@pytest.mark.parametrize(
    ("python", "message"),
    [
        ('[[ "$2" == *platform* ]] && echo 3.9.18 || exit 1', "is Python 3.9.18; torch_xla 2.9 is built for 3.10 to 3.13"),
        ('[[ "$2" == *platform* ]] && echo 3.14.0 || exit 1', "is Python 3.14.0; torch_xla 2.9 is built for 3.10 to 3.13"),
        ('case "$2" in *platform*) echo 3.12.1 ;; *ensurepip*) exit 1 ;; esac', "lacks the module venv or ensurepip"),
        ("exit 127", "does not run"),
    ],
    ids=["too old", "too new", "no venv", "broken"],
)
def test_a_python_that_will_not_do_is_named(python: str, message: str, checkout: Path) -> None:
    executable(checkout / "python", f"#!{BASH}\n{python}\n")
    code, output, errors = run(checkout, "environment.sh")
    assert (code, output) == (3, "")
    assert message in errors
    assert "  next      " in errors
    assert not (checkout / ".venv").exists()


def test_a_python_that_does_not_exist_is_named(checkout: Path) -> None:
    code, _, errors = run(checkout, "environment.sh", PYTHON="python2.0")
    assert code == 3
    assert "there is no command 'python2.0'" in errors


def test_a_folder_with_other_content_is_left_alone(checkout: Path) -> None:
    (checkout / "mine").mkdir()
    (checkout / "mine" / "letter").write_text("keep")
    code, _, errors = run(checkout, "environment.sh", XLA_EQUIV_VENV=str(checkout / "mine"))
    assert code == 3
    assert "holds something else" in errors
    assert [path.name for path in (checkout / "mine").iterdir()] == ["letter"]


FAKE_COMMAND = f"""#!{BASH}
arguments="$*"
[[ "$1" != run || -z "${{SLEEP:-}}" ]] || trap 'echo stopped >> calls; kill $!; exit 3' TERM
while [[ $# -gt 0 ]]; do
    case "$1" in
        --out) out="$2" ;;
        --out=*) out="${{1#--out=}}" ;;
        --markdown) echo summary > "$2" ;;
    esac
    shift
done
[[ -z "${{out:-}}" ]] || {{ mkdir -p "$out" && touch "$out/report.json"; }}
echo "$arguments" >> calls
[[ "$arguments" != run* || -z "${{SLEEP:-}}" ]] || {{ sleep 30 > /dev/null 2>&1 & wait; }}
exit "${{CODE:-0}}"
"""


@pytest.fixture
def with_command(checkout: Path) -> Path:
    """Return a checkout whose environment has an `xla-equiv` that takes note of its arguments."""
    run(checkout, "environment.sh")
    run(checkout, "environment.sh", "dev", "tpu")
    executable(checkout / ".venv" / "bin" / "xla-equiv", FAKE_COMMAND)
    return checkout


def calls(checkout: Path) -> list[str]:
    return (checkout / "calls").read_text().splitlines()


@pytest.mark.parametrize(
    ("script", "option"),
    [("run-default-suites.sh", ""), ("run-full-suites.sh", " --full"), ("run-tpu-suites.sh", " --backend xla:tpu")],
)
def test_suites_are_run_with_the_arguments_given(script: str, option: str, with_command: Path) -> None:
    summary = with_command / "summary.md"
    summary.write_text("before\n")
    code, _, errors = run(with_command, script, "mlp", "-k", "a b", CODE="4", GITHUB_STEP_SUMMARY=str(summary))
    assert code == 4, errors
    assert re.fullmatch(rf"run --out \.xla_equiv/runs/\S+{option} mlp -k a b", calls(with_command)[0])
    assert summary.read_text() == "before\nsummary\n"


@pytest.mark.parametrize("option", [("--out", "mine"), ("--out=mine",)])
def test_a_run_folder_may_be_given(option: tuple[str, ...], with_command: Path) -> None:
    assert run(with_command, "run-default-suites.sh", *option)[0] == 0
    assert calls(with_command)[1] == "report mine --markdown mine/report.md"


def test_a_run_that_is_stopped_ends_and_reports(with_command: Path) -> None:
    process = start(with_command, "run-default-suites.sh", SLEEP="yes")
    while not (with_command / "calls").exists():
        assert process.poll() is None
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == 3
    folder = calls(with_command)[0].split()[2]
    assert calls(with_command)[1:] == ["stopped", f"report {folder} --markdown {folder}/report.md"]


def test_the_workflow_calls_the_scripts_and_keeps_the_runs() -> None:
    text = WORKFLOW.read_text()
    called = set(re.findall(r"bash (ci/[\w.-]+)", text))
    assert called == {"ci/test.sh", "ci/run-default-suites.sh", "ci/run-full-suites.sh", "ci/run-tpu-suites.sh"}
    assert all((ROOT / path).exists() for path in called)
    assert text.count("upload-artifact@") == text.count("include-hidden-files: true") == text.count("if: always()")
    supported = tomlkit.parse((ROOT / "pyproject.toml").read_text()).unwrap()["project"]["requires-python"]
    versions = re.search(r"python: \[(.*)]", text)
    assert supported == ">=3.10,<3.14"
    assert versions is not None
    assert versions.group(1) == '"3.10", "3.11", "3.12", "3.13"'
