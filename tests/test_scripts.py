"""The shell scripts: the set-up's arguments, and the command that .ci/run reads out of README."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = """
## Other
```sh
echo one
```
```sh
echo two
```
## Quick start
```sh
echo three
```
```python
print("four")
```
```sh
echo five "$CONVGRAD_REQUIRE"; false
```
## Quick starters
```sh
echo six
```
"""


@pytest.fixture
def ci_run(tmp_path):
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")

    def run(readme):
        (tmp_path / "README.md").write_text(readme)
        return subprocess.run([tmp_path / ".ci" / "run"], capture_output=True, text=True, check=False)

    return run


def test_ci_runs_the_second_block_of_the_quick_start_and_fails_with_it(ci_run):
    result = ci_run(README)
    oclgrind = ",oclgrind" if platform.freedesktop_os_release().get("VERSION_CODENAME") == "bookworm" else ""
    assert result.stdout.splitlines() == [
        'echo five "$CONVGRAD_REQUIRE"; false',
        f"five numpy,opencl{oclgrind}",
    ]
    assert result.returncode == 1


WITHOUT = {
    "an empty file": "",
    "another heading": README.replace("## Quick start\n", "## Start\n"),
    "one block only": README.replace("```sh\necho five", "```\necho five"),
}


@pytest.mark.parametrize("readme", WITHOUT.values(), ids=WITHOUT)
def test_ci_fails_loudly_without_the_block(ci_run, readme):
    result = ci_run(readme)
    assert result.returncode == 1
    assert "no second sh block" in result.stderr


def test_setup_refuses_an_unknown_leg_before_it_does_anything(tmp_path):
    script = ROOT / "tests" / "setup.sh"
    result = subprocess.run(
        ["sh", script, "test", "tset"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert result.stdout == ""
    assert "tset" in result.stderr
