"""What the README says."""

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_python_examples_run():
    """Each Python block of the README runs as it stands, one after the other."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert blocks
    scope: dict[str, object] = {}
    for block in blocks:
        exec(block, scope)
