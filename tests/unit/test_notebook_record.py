from __future__ import annotations

from typing import Any

import pytest

from hami_hub.notebook.record import cell_markdown


@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        pytest.param([], "```python\nx\n```\n\n", id="nothing printed"),
        pytest.param(
            [{"output_type": "stream", "name": "stdout", "text": "one\n"}],
            "```python\nx\n```\n\n```text\none\n```\n\n",
            id="a stream",
        ),
        pytest.param(
            [{"output_type": "execute_result", "data": {"text/plain": "1"}}],
            "```python\nx\n```\n\n```text\n1\n```\n\n",
            id="a result",
        ),
        pytest.param(
            [{"output_type": "error", "ename": "OutOfMemoryError", "evalue": "CUDA \x1b[31mout\x1b[0m of memory."}],
            "```python\nx\n```\n\n```text\nOutOfMemoryError: CUDA out of memory.\n```\n\n",
            id="an error, without colours",
        ),
        pytest.param(
            [{"output_type": "stream", "name": "stdout", "text": "```\n"}],
            "```python\nx\n```\n\n````text\n```\n````\n\n",
            id="an output with a fence",
        ),
    ],
)
def test_a_cell_is_written_down(outputs: list[dict[str, Any]], text: str) -> None:
    assert cell_markdown("x", outputs) == text
