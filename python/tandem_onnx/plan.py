"""What a model shows of itself: its plan, and its layers."""
from __future__ import annotations

import dataclasses
import json
from html import escape
from typing import Any

import numpy as np


@dataclasses.dataclass
class Layer:
    """A node, or all nodes and weights of a module."""
    name: str
    nodes: list[str]
    operators: list[str]
    outputs: list[str]
    weights: dict[str, np.ndarray]

    def get_weights(self) -> dict[str, np.ndarray]:
        return dict(self.weights)


class Plan:
    """The static plan of a training step. `str(plan)` is its text; in a notebook it shows as a page."""

    def __init__(self, read):
        self._read = read

    def __str__(self) -> str:
        return self._read("summary")

    def __repr__(self) -> str:
        return str(self)

    def steps(self) -> str:
        """The text with every step of every device."""
        return self._read("text")

    def json(self) -> dict[str, Any]:
        """The plan as a dict."""
        return json.loads(self._read("json"))

    def html(self) -> str:
        """The page as text of HTML, whole in itself."""
        return self._read("html")

    def dot(self) -> str:
        """The steps as Graphviz reads them."""
        return self._read("dot")

    def svg(self) -> str:
        """A picture of where each module lies and what passes between devices."""
        return self._read("svg")

    def mermaid(self) -> str:
        """The same as a Mermaid flowchart, for a README."""
        return self._read("mermaid")

    def trace(self) -> dict[str, Any]:
        """The planned step in the trace-event format, for Perfetto."""
        return json.loads(self._read("perfetto"))

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html())}" style="width:100%;height:640px;border:0"></iframe>'
