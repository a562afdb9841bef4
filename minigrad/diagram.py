"""draw: the graph of a small computation as a picture, in SVG for the eye and in DOT for Graphviz.

A box is a leaf or an operation, an arrow carries a tensor and is labelled with its shape. Gradients go the other way,
against the arrows, and what is used n times ("x n") gets n of them, which are added.
"""
from __future__ import annotations

import dataclasses
import os
import secrets
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from minigrad.engine import Node, is_tensor

MOST = 200  # nodes; beyond that a picture shows nothing
HEIGHT, LEVEL, GAP, LETTER = 28, 70, 26, 7.3  # pixels: of a box, from layer to layer, between boxes, of a letter
LEAF, OPERATION, RESULT = "#cfe8cf", "#f2f2f2", "#ffe2b8"


@dataclasses.dataclass
class _Box:
    """A node of the graph, or the bend of an arrow that passes a layer (label None)."""

    label: str | None
    colour: str = OPERATION
    shape: tuple[int, ...] = ()
    level: int = 0
    uses: int = 0
    x: float = 0.0
    sources: list[int] = dataclasses.field(default_factory=list)  # what it was computed from, one for each use

    @property
    def text(self) -> str:
        return (self.label or "") + (f"  \u00d7{self.uses}" if self.uses > 1 else "")

    @property
    def width(self) -> float:
        return 8.0 if self.label is None else 22 + LETTER * len(self.text)

    @property
    def reach(self) -> float:
        """Half of the room it takes in its layer: that of the box, or of the shape below it."""
        return max(self.width / 2, LETTER * len(_shape(self)) if self.uses else 0)


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
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        try:
            temporary.write_text(texts[path.suffix], encoding="utf-8")
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


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
            box = _Box(node.operation.name.lstrip("_"), shape=node.shape, sources=[numbers[id(s)] for s in sources])
        else:
            box = _Box(names.get(id(node), "leaf"), LEAF, node.shape)
        boxes.append(box)
        for source in box.sources:
            boxes[source].uses += 1
    boxes[-1].colour = RESULT
    boxes[-1].label = f"{boxes[-1].label} {_shape(boxes[-1]) or '()'}"
    return boxes


def _shape(box: _Box) -> str:
    return " \u00d7 ".join(map(str, box.shape))


def _dot(boxes: list[_Box]) -> str:
    lines = ["digraph {", '  node [shape=box, style="rounded,filled", fontname=monospace];']
    for number, box in enumerate(boxes):
        lines.append(f'  n{number} [label={_quoted(box.text)}, fillcolor="{box.colour}"];')
    for number, box in enumerate(boxes):
        lines += [f"  n{source} -> n{number} [label={_quoted(_shape(boxes[source]))}];" for source in box.sources]
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# --- the picture: layers from top to bottom, in each an order with few crossings, then a place for each box ----------


def _svg(boxes: list[_Box]) -> str:
    count = len(boxes)
    boxes = [dataclasses.replace(box, sources=list(box.sources)) for box in boxes]
    _set_levels(boxes)
    arrows = _with_bends(boxes)
    layers = _ordered(boxes, [(a, b) for path in arrows for a, b in zip(path, path[1:])])
    width = max(box.x + box.reach for box in boxes) + GAP
    height = len(layers) * LEVEL - LEVEL + HEIGHT + 2 * GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
        f'height="{height}" font-family="ui-monospace, monospace" font-size="12" role="img">',
        f"<title>The graph of a computation: {count} nodes, the result at the bottom</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#555"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height}" fill="#fff"/>',
    ]
    seen: dict[tuple[int, ...], int] = {}
    for path in arrows:
        ends = path[0], path[-1]
        again = seen[ends] = seen.get(ends, -1) + 1  # x * x: the second arrow beside the first
        parts.append(_arrow([boxes[place] for place in path], again))
    for box in boxes:
        if box.uses and box.shape:  # all arrows out of a box carry the same tensor: one label
            parts.append(
                f'<text x="{box.x + 6:.1f}" y="{_top(box) + HEIGHT + 15}" fill="#245a9c" font-size="11">'
                f"{_shape(box)}</text>"
            )
        if box.label is not None:
            parts.append(
                f'<rect x="{box.x - box.width / 2:.1f}" y="{_top(box)}" width="{box.width:.1f}" height="{HEIGHT}" '
                f'rx="6" fill="{box.colour}" stroke="#555"/>'
                f'<text x="{box.x:.1f}" y="{_top(box) + HEIGHT / 2 + 4}" text-anchor="middle" fill="#111" '
                f'xml:space="preserve">{escape(box.text)}</text>'
            )
    return "\n".join([*parts, "</svg>"])


def _set_levels(boxes: list[_Box]) -> None:
    """Each operation a layer below what it was computed from, each leaf just above what uses it first."""
    for box in boxes:
        box.level = 1 + max((boxes[source].level for source in box.sources), default=-1)
    for number, box in enumerate(boxes):
        if not box.sources:
            box.level = min(other.level for other in boxes if number in other.sources) - 1


def _with_bends(boxes: list[_Box]) -> list[list[int]]:
    """The arrows as lists of boxes, one in each layer on the way; the bends are added to `boxes`."""
    arrows = []
    for number, box in enumerate(list(boxes)):
        for source in box.sources:
            bends = [_Box(None, level=level) for level in range(boxes[source].level + 1, box.level)]
            arrows.append([source, *range(len(boxes), len(boxes) + len(bends)), number])
            boxes += bends
    return arrows


def _ordered(boxes: list[_Box], steps: list[tuple[int, int]]) -> list[list[_Box]]:
    """The layers, each in an order that crosses few arrows, with every box's `x` set.

    The barycentre method: again and again each layer is sorted by where its neighbours in the layer before are.
    Source: Sugiyama, Tagawa and Toda, IEEE Transactions on Systems, Man, and Cybernetics 11 (1981).
    """
    above: dict[int, list[_Box]] = {id(box): [] for box in boxes}
    below: dict[int, list[_Box]] = {id(box): [] for box in boxes}
    for a, b in steps:
        above[id(boxes[b])].append(boxes[a])
        below[id(boxes[a])].append(boxes[b])
    layers: list[list[_Box]] = [[] for _ in range(1 + max(box.level for box in boxes))]
    for box in boxes:
        layers[box.level].append(box)
    for layer in layers:
        _spread(layer, {id(box): 60.0 * i for i, box in enumerate(layer)})
    for turn in range(12):
        for layer, neighbours in [(layer, above) for layer in layers] + [(layer, below) for layer in reversed(layers)]:
            near = {id(box): neighbours[id(box)] for box in layer}
            wish = {key: sum(box.x for box in them) / len(them) for key, them in near.items() if them}
            wish = {id(box): wish.get(id(box), box.x) for box in layer}
            if turn < 8:  # the last turns move boxes, but keep the order
                layer.sort(key=lambda box: wish[id(box)])  # noqa: B023
            _spread(layer, wish)
    left = min(box.x - box.width / 2 for box in boxes) - GAP
    for box in boxes:
        box.x -= left
    return layers


def _spread(layer: list[_Box], wish: dict[int, float]) -> None:
    """Place a layer's boxes near their wishes, in their order and with a gap between them."""
    edge = float("-inf")
    for box in layer:
        box.x = max(wish[id(box)], edge + box.reach)
        edge = box.x + box.reach + GAP
    shift = sum(wish[id(box)] - box.x for box in layer) / max(len(layer), 1)  # as many to the left as to the right
    for box in layer:
        box.x += shift


def _top(box: _Box) -> int:
    return GAP + box.level * LEVEL


def _arrow(path: list[_Box], again: int) -> str:
    """A smooth line from layer to layer, straight through those it passes; the second of a pair beside the first."""
    x, y = path[0].x - 12 * again, _top(path[0]) + HEIGHT
    line = f"M{x:.1f} {y}"
    for box in path[1:]:
        to_x, to_y = box.x - 12 * again, _top(box)
        line += f"C{x:.1f} {(y + to_y) / 2:.0f} {to_x:.1f} {(y + to_y) / 2:.0f} {to_x:.1f} {to_y}"
        x, y = to_x, to_y
        if box is not path[-1]:
            y += HEIGHT
            line += f"V{y}"
    return f'<path d="{line}" fill="none" stroke="#555" marker-end="url(#tip)"/>'
