"""draw: what the picture of a graph shows, and that no box hides another."""
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minigrad
from minigrad import Tensor, functional

SVG = "{http://www.w3.org/2000/svg}"


def boxes(drawing) -> dict[str, tuple[float, float, float, float]]:
    """The left, top, right and bottom of each box, by the text in it."""
    parts = list(ElementTree.fromstring(drawing.svg))
    found = {}
    for rectangle, text in zip(parts, parts[1:]):
        if rectangle.tag == f"{SVG}rect" and text.tag == f"{SVG}text":
            x, y, width, height = (float(rectangle.get(name)) for name in ("x", "y", "width", "height"))
            found[f"{len(found)} {text.text}"] = x, y, x + width, y + height
    return found


def tied_loss():
    table = Tensor(np.ones((6, 3), np.float32), requires_grad=True)
    hidden = functional.embedding([2, 3, 5, 1], table)
    return table, (hidden @ table.T).exp().sum()


def test_a_tied_table_is_one_box_used_twice_with_the_shapes_that_leave_it():
    table, loss = tied_loss()
    drawing = minigrad.draw(loss, {"wte.weight": table})
    assert 'label="wte.weight  ×2"' in drawing.dot and drawing.dot.count("wte.weight") == 1
    assert re.search(r'n0 -> n\d \[label="6 × 3"\]', drawing.dot)
    texts = [text.text for text in ElementTree.fromstring(drawing.svg).iter(f"{SVG}text")]
    assert {"wte.weight  ×2", "lookup", "permute", "6 × 3", "3 × 6", "4 × 3", "4 × 6", "reduce_sum ()"} <= set(texts)


def test_every_arrow_of_dot_is_an_arrow_of_the_picture():
    drawing = minigrad.draw(tied_loss()[1])
    arrows = [path for path in ElementTree.fromstring(drawing.svg).iter(f"{SVG}path") if path.get("marker-end")]
    assert len(arrows) == drawing.dot.count("->")


def test_the_names_can_be_those_of_a_module():
    class Shift(minigrad.Module):
        def __init__(self):
            self.by = minigrad.Parameter([1.0, 2.0])

    shift = Shift()
    assert 'label="by"' in minigrad.draw(shift.by.exp(), shift.named_parameters()).dot


def test_a_name_is_text_and_never_markup():
    x = Tensor([1.0], requires_grad=True)
    drawing = minigrad.draw(x.exp(), {'<b>"&': x})
    assert '<b>"&' in [text.text for text in ElementTree.fromstring(drawing.svg).iter(f"{SVG}text")]
    assert r'label="<b>\"&"' in drawing.dot


@settings(max_examples=40)
@given(choices=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=25))
def test_in_any_graph_no_box_lies_on_another_and_each_is_below_what_it_needs(choices):
    leaves = [Tensor([1.0], requires_grad=True) for _ in range(3)]
    values = list(leaves)
    for a, b in choices:
        values.append(values[a % len(values)] + values[b % len(values)])
    drawing = minigrad.draw(values[-1])
    places = list(boxes(drawing).values())
    for i, (left, top, right, bottom) in enumerate(places):
        for left2, top2, right2, bottom2 in places[:i]:
            assert right < left2 or right2 < left or bottom < top2 or bottom2 < top
    for source, target in re.findall(r"n(\d+) -> n(\d+)", drawing.dot):
        assert places[int(source)][3] < places[int(target)][1]
    width = float(ElementTree.fromstring(drawing.svg).get("width"))
    assert min(place[0] for place in places) >= 0 and max(place[2] for place in places) <= width


def test_a_large_graph_is_refused_and_not_drawn():
    x = Tensor([1.0], requires_grad=True)
    for _ in range(5_000):
        x = x + 1
    with pytest.raises(ValueError, match="more than 200 nodes is too large to draw"):
        minigrad.draw(x)


@pytest.mark.parametrize("tensor, error, message", [
    (3.0, TypeError, "draw takes a Tensor, got float"),
    (Tensor([1.0]), ValueError, "no graph to draw"),
    (Tensor([1.0], requires_grad=True), ValueError, "no graph to draw"),
])
def test_what_has_no_graph_is_refused(tensor, error, message):
    with pytest.raises(error, match=message):
        minigrad.draw(tensor)


def test_a_drawing_is_saved_as_its_name_says_and_still_shows_after_backward(tmp_path):
    loss = tied_loss()[1]
    loss.backward()
    drawing = minigrad.draw(loss)
    for suffix, text in ((".svg", drawing.svg), (".dot", drawing.dot)):
        drawing.save(tmp_path / f"graph{suffix}")
        assert (tmp_path / f"graph{suffix}").read_text(encoding="utf-8") == text
    with pytest.raises(ValueError, match=r"graph.png: a drawing is saved as .svg or as .dot"):
        drawing.save(tmp_path / "graph.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph.dot", "graph.svg"]
    assert drawing._repr_svg_() == drawing.svg
