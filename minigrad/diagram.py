"""draw: the graph of a small computation as a picture, in SVG for the eye and in DOT for Graphviz.

A box is a leaf or an operation, an arrow carries a tensor and is labelled with its shape. Gradients go the other way,
against the arrows, and what is used n times ("x n") gets n of them, which are added.

In SVG the boxes stand in one column, in the order in which they were computed: each is below all that it needs. An
arrow goes straight down to the next box, and in an arc on the right past those between.
"""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from minigrad.engine import Node, is_tensor
from minigrad.saving import write

MOST = 200  # nodes; beyond that a picture shows nothing
HEIGHT, STEP, MARGIN, LETTER = 28, 62, 26, 7.3  # pixels: of a box, from box to box, around them all, of a letter
LEAF, OPERATION, RESULT = "#cfe8cf", "#f2f2f2", "#ffe2b8"


@dataclasses.dataclass
class _Box:
    """A node of the graph."""

    label: str
    colour: str
    shape: tuple[int, ...]
    sources: list[int]  # what it was computed from, one for each use
    uses: int = 0

    @property
    def text(self) -> str:
        return self.label + (f"  \u00d7{self.uses}" if self.uses > 1 else "")

    @property
    def size(self) -> str:
        return " \u00d7 ".join(map(str, self.shape))


class Drawing:
    """What `draw` returns: `.svg` and `.dot` are the two texts, `save(path)` writes the one that the name asks for.

    In a notebook it shows itself.
    """

    def __init__(self, svg: str, dot: str):
        self.svg, self.dot = svg, dot

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `path`, which ends in .svg or .dot; it is there whole or not at all."""
        path = Path(path)
        texts = {".svg": self.svg, ".dot": self.dot}
        if path.suffix not in texts:
            raise ValueError(f"{path}: a drawing is saved as .svg or as .dot")
        write(path, texts[path.suffix].encode())


def draw(tensor: Any, names: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()) -> Drawing:
    """The graph that `tensor` was computed by, as far as gradients go back through it.

    names: the leaves' names, {"weight": weight, ...}, or a module's `named_parameters()`. Constants, and ids, are not
    drawn: no gradient reaches them.

    Raises TypeError for what is no tensor, ValueError for a tensor without a graph or a graph of more than 200 nodes.

    >>> from minigrad import Tensor
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> print(draw((x * x).sum(), {"x": x}).dot)
    digraph {
      node [shape=box, style="rounded,filled", fontname=monospace];
      n0 [label="x  ×2", fillcolor="#cfe8cf"];
      n1 [label="mul", fillcolor="#f2f2f2"];
      n2 [label="reduce_sum ()", fillcolor="#ffe2b8"];
      n0 -> n1 [label="2"];
      n0 -> n1 [label="2"];
      n1 -> n2 [label="2"];
    }
    """
    if not is_tensor(tensor):
        raise TypeError(f"draw takes a Tensor, got {type(tensor).__name__}")
    if tensor._node is None:
        raise ValueError("there is no graph to draw: this tensor was not computed from one that requires a gradient")
    boxes = _boxes(tensor, {id(leaf): name for name, leaf in dict(names).items()})
    return Drawing(_svg(boxes), _dot(boxes))


def _boxes(tensor: Any, names: dict[int, str]) -> list[_Box]:
    """The graph behind `tensor`, each node after what it was computed from."""
    numbers: dict[int, int] = {}
    boxes: list[_Box] = []
    stack: list[tuple[Any, bool]] = [(tensor._node, False)]
    while stack:  # depth first, as the walk back does it
        node, sources_done = stack.pop()
        if id(node) in numbers:
            continue
        sources = [p for p in node.parents if p is not None] if isinstance(node, Node) else []
        if not sources_done:
            stack.append((node, True))
            stack.extend((source, False) for source in reversed(sources))
            continue
        if len(boxes) == MOST:
            raise ValueError(f"a graph of more than {MOST} nodes is too large to draw: draw a part, or a smaller input")
        numbers[id(node)] = len(boxes)
        if isinstance(node, Node):
            label, colour = node.operation.name.lstrip("_"), OPERATION
        else:
            label, colour = names.get(id(node), "leaf"), LEAF
        boxes.append(_Box(label, colour, node.shape, [numbers[id(source)] for source in sources]))
        for source in boxes[-1].sources:
            boxes[source].uses += 1
    boxes[-1].colour = RESULT
    boxes[-1].label += f" {boxes[-1].size or '()'}"
    return boxes


def _dot(boxes: list[_Box]) -> str:
    lines = ["digraph {", '  node [shape=box, style="rounded,filled", fontname=monospace];']
    for number, box in enumerate(boxes):
        lines.append(f'  n{number} [label={_quoted(box.text)}, fillcolor="{box.colour}"];')
    for number, box in enumerate(boxes):
        lines += [f"  n{source} -> n{number} [label={_quoted(boxes[source].size)}];" for source in box.sources]
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _svg(boxes: list[_Box]) -> str:
    wide = 22 + LETTER * max(len(box.text) for box in boxes)  # of every box
    middle, right = MARGIN + wide / 2, MARGIN + wide
    width, height = right, STEP * len(boxes) - STEP + HEIGHT + 2 * MARGIN
    parts = []
    for number, box in enumerate(boxes):
        for i, source in enumerate(box.sources):
            start, end, again = _top(source), _top(number), box.sources[:i].count(source)  # x * x: one beside the other
            if source == number - 1:
                line = f"M{middle - 12 * again:.1f} {start + HEIGHT}V{end}"
            else:
                reach = right + 34 * (number - source) ** 0.5 + 12 * again
                width = max(width, reach)
                line = f"M{right:.1f} {start + 20}C{reach:.1f} {start + 20} {reach:.1f} {end + 8} {right:.1f} {end + 8}"
            parts.append(f'<path d="{line}" fill="none" stroke="#555" marker-end="url(#tip)"/>')
    for number, box in enumerate(boxes):
        top = _top(number)
        if box.uses and box.shape:  # all arrows out of a box carry the same tensor: one label
            parts.append(
                f'<text x="{middle + 6:.1f}" y="{top + HEIGHT + 15}" fill="#245a9c" font-size="11">{box.size}</text>'
            )
        parts.append(
            f'<rect x="{MARGIN}" y="{top}" width="{wide:.1f}" height="{HEIGHT}" rx="6" fill="{box.colour}" '
            f'stroke="#555"/><text x="{middle:.1f}" y="{top + HEIGHT / 2 + 4}" text-anchor="middle" fill="#111" '
            f'xml:space="preserve">{escape(box.text)}</text>'
        )
    width += MARGIN
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
        f'height="{height}" font-family="ui-monospace, monospace" font-size="12" role="img">',
        f"<title>The graph of a computation: {len(boxes)} nodes, the result at the bottom</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#555"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height}" fill="#fff"/>',
        *parts, "</svg>",
    ])  # fmt: skip


def _top(number: int) -> int:
    return MARGIN + STEP * number
