"""How a tensor prints: as torch prints it, to the character."""
from __future__ import annotations

import math

import numpy as np

# digits, columns, entries before "..." stands for some, entries kept at each edge
PRECISION, LINE_WIDTH, THRESHOLD, EDGE = 4, 80, 1000, 3


def tensor_text(array: np.ndarray, suffixes: list[str]) -> str:
    """`array` as torch would print it, with `suffixes` ("requires_grad=True", ...) after the numbers.

    >>> print(tensor_text(np.array([[1.5, -2.0]], np.float32), ["requires_grad=True"]))
    tensor([[ 1.5000, -2.0000]], requires_grad=True)
    """
    prefix = "tensor("
    facts: list[str] = []
    if array.size == 0:
        body = "[]"
        facts = [f"size={array.shape}"] if array.ndim != 1 else []
    else:
        shown = _summarised(array) if array.size > THRESHOLD else array
        body = _body(array, len(prefix), _formatter(shown), array.size > THRESHOLD)
    if array.dtype.name not in ("float32", "bool", "int64") or (array.size == 0 and array.dtype.name != "float32"):
        facts.append(f"dtype={array.dtype.name}")
    text, last_line = prefix + body, len(prefix + body) - (prefix + body).rfind("\n") + 1
    for suffix in [*facts, *suffixes]:
        if last_line + len(suffix) + 2 > LINE_WIDTH:
            text += ",\n" + " " * len(prefix) + suffix
            last_line = len(prefix) + len(suffix)
        else:
            text += ", " + suffix
            last_line += len(suffix) + 2
    return text + ")"


def _summarised(array: np.ndarray) -> np.ndarray:
    """Only the entries that will be printed: the width of a column follows from these."""
    for axis, n in enumerate(array.shape):
        if n > 2 * EDGE:
            array = np.take(array, [*range(EDGE), *range(n - EDGE, n)], axis=axis)
    return array


def _formatter(shown: np.ndarray):
    """number -> text, all of one width: whole numbers as '3.', else four digits, or all in scientific notation."""
    if shown.dtype.kind != "f":
        width = max(len(str(v)) for v in shown.ravel().tolist())
        return lambda v: str(v).rjust(width)
    signed = [v for v in shown.ravel().tolist() if math.isfinite(v) and v != 0]
    values = [abs(v) for v in signed]
    whole = all(v == math.ceil(v) for v in signed)
    scientific = bool(values) and (max(values) / min(values) > 1000 or max(values) > 1e8 or min(values) < 1e-4)

    def text(v: float) -> str:
        if scientific:
            return f"{v:.{PRECISION}e}"
        if whole:
            return f"{v:.0f}" + ("." if math.isfinite(v) else "")
        return f"{v:.{PRECISION}f}"

    width = max((len(text(v)) for v in signed), default=1)
    return lambda v: text(v).rjust(width)


def _body(array: np.ndarray, indent: int, text, summarise: bool) -> str:
    if array.ndim == 0:
        return text(array.item())
    cut = summarise and len(array) > 2 * EDGE
    if array.ndim == 1:
        per_line = max(1, (LINE_WIDTH - indent) // (len(text(array[0].item())) + 2))
        cells = [text(v) for v in (array if not cut else array[:EDGE]).tolist()]
        if cut:
            cells += [" ..."] + [text(v) for v in array[-EDGE:].tolist()]
        lines = [", ".join(cells[i:i + per_line]) for i in range(0, len(cells), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    rows = list(array) if not cut else [*array[:EDGE], None, *array[-EDGE:]]
    parts = ["..." if row is None else _body(row, indent + 1, text, summarise) for row in rows]
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"
