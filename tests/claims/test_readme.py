"""What the README and the pages beside it say."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


NAMES = ["theory", "diagnosis", "watch", "investigate", "gallery"]
PAGES = ["README.md", *(f"docs/{name}.md" for name in NAMES)]


@pytest.mark.parametrize("page", PAGES)
def test_python_examples_run(page, tmp_path, monkeypatch):
    """Each Python block of a page runs as it stands, one after the other."""
    if page != "README.md":
        pytest.importorskip("torch")
        pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    scope: dict[str, object] = {}
    for block in blocks:
        exec(block, scope)
