"""Pictures of cells, functions and decision boundaries."""

import time
import xml.etree.ElementTree as ET
from importlib import util
from itertools import pairwise

import numpy as np
import pytest
from theory import oracle

from hardzero import RectifierClassifier, RectifierRegressor
from hardzero.errors import BudgetError, ParameterError
from hardzero.theory import picture
from hardzero.theory.picture import draw
from hardzero.theory.rational import rational_network

pytest.importorskip("matplotlib")

from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

BOX = ((-2, -2), (2, 2))
DIAMOND = rational_network(
    [([[1, -1, 0, 0], [0, 0, 1, -1]], [0] * 4), ([[-1]] * 4, [1])]
)  # 1 - |x| - |y|
QUADRANT = rational_network([([[1, 0], [0, 1]], [0, 0]), ([[1], [1]], [0])])


def anchor(*sizes):
    """A random network with dyadic weights."""
    rng = np.random.default_rng(0)
    layers = []
    for a, b in pairwise(sizes):
        W = np.round(rng.normal(0, np.sqrt(2 / a), (b, a)) * 256) / 256
        layers.append(
            (W.T.tolist(), (np.round(rng.normal(0, 0.5, b) * 256) / 256).tolist())
        )
    return rational_network(layers)


def collections(ax, kind):
    """The artists of one kind."""
    return [artist for artist in ax.collections if type(artist) is kind]


def words(figure):
    """The texts of the legend below a figure."""
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def area(polygon):
    """The area of a polygon whose corners are in a circle."""
    x, y = np.asarray(polygon).T
    return abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2


@pytest.mark.parametrize("suffix", ["png", "svg", "PNG"])
def test_the_suffix_says_which_kind_of_file_is_written(tmp_path, suffix):
    """PNG begins with its signature, SVG is XML; capitals are as good."""
    path = tmp_path / f"cells.{suffix}"
    draw(DIAMOND, path, domain=BOX)
    if suffix == "svg":
        assert ET.parse(path).getroot().tag.endswith("svg")
    else:
        assert path.read_bytes().startswith(b"\x89PNG")


def test_both_panels_show_all_cells_and_the_boundary():
    """Polygons fill the box; the boundary of 1 - |x| - |y| has four sides."""
    figure = draw(DIAMOND, domain=BOX, title="a diamond")
    counts = "4 activation patterns, 4 linear regions, 4 affine maps"
    assert figure.get_suptitle() == f"a diamond\n{counts}"
    for ax in figure.axes[:2]:
        (cells,) = collections(ax, PolyCollection)
        assert sum(area(p.vertices[:-1]) for p in cells.get_paths()) == 16
        (sides,) = collections(ax, LineCollection)
        assert {frozenset(map(tuple, s.tolist())) for s in sides.get_segments()} == {
            frozenset({(a, 0), (0, b)}) for a in (-1, 1) for b in (-1, 1)
        }
        assert ax.get_aspect() == 1
        assert (ax.get_xlim(), ax.get_ylim()) == ((-2, 2), (-2, 2))
    assert words(figure) == ["output = 0"]


def test_the_same_pattern_has_the_same_colour_in_another_box():
    """Colours of cells depend on nothing but the pattern."""
    one, other = (
        collections(draw(DIAMOND, domain=box, show="cells").axes[0], PolyCollection)[0]
        for box in (BOX, ((-1, -1), (5, 5)))
    )
    assert np.array_equal(one.get_facecolor(), other.get_facecolor())
    assert len(np.unique(one.get_facecolor(), axis=0)) == 4


def test_the_shading_is_the_function():
    """Pixels have the output's values, blue below the level, orange above."""
    ax = draw(DIAMOND, domain=BOX, show="function").axes[0]
    (image,) = ax.images
    n = len(image.get_array())
    x = -2 + (np.arange(n) + 0.5) * 4 / n
    expected = 1 - np.abs(x)[None, :] - np.abs(x)[:, None]
    assert np.allclose(image.get_array(), expected)
    red, _, blue, _ = np.moveaxis(image.to_rgba(np.array([[-1.0, 1.0]])), -1, 0)[:, 0]
    assert red[0] < blue[0]
    assert red[1] > blue[1]


@pytest.mark.parametrize("seed", range(10))
def test_values_in_floats_are_those_of_the_exact_network(seed):
    """Also with scales that differ from layer to layer."""
    rng = np.random.default_rng(seed)
    shape = [2, *rng.integers(1, 5, 2).tolist(), 1]
    draws = oracle.random_layers(rng, shape, lambda r: float(r.normal()))
    network = rational_network(draws)
    points = rng.normal(size=(2, 20))
    exact = [float(network(x)[0]) for x in points.T.tolist()]
    assert np.allclose(picture._evaluate(network, points), exact)


def test_without_a_level_there_is_no_boundary():
    """The function is coloured from its least to its largest value."""
    ax = draw(DIAMOND, domain=BOX, level=None, show="function").axes[0]
    assert collections(ax, LineCollection) == []
    low, high = ax.images[0].get_clim()
    assert -3 <= low < high <= 1


def test_flat_parts_touched_levels_and_points_are_told_apart():
    """A zero quadrant is hatched, its rim dashed, a touched point is a dot."""
    figure = draw(QUADRANT, domain=BOX)
    assert words(figure) == ["output = 0 on a cell", "output = 0, same decision beyond"]
    hatched = [c for c in collections(figure.axes[0], PolyCollection) if c.get_hatch()]
    assert len(hatched) == 1
    assert words(draw(DIAMOND, domain=BOX, level=1)) == ["output = 1 at a point"]


def test_several_outputs_show_which_one_leads():
    """Of x, y and 0 each leads on a part, filled once; names are the outputs'."""
    network = rational_network([([[1, 0, 0], [0, 1, 0]], [0, 0, 0])])
    figure = draw(network, domain=BOX, show="function")
    assert words(figure) == [
        "decides for 0",
        "decides for 1",
        "decides for 2",
        "decision boundary",
    ]
    *classes, cells = collections(figure.axes[0], PolyCollection)
    areas = [sum(area(p.vertices[:-1]) for p in c.get_paths()) for c in classes]
    assert areas == [6, 6, 4]
    assert [len(c.get_paths()) for c in (*classes, cells)] == [1, 1, 1, 1]


def test_a_classifier_with_its_training_data():
    """Labels name the classes; dots lie where the rows are, shaped by label."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, "cat", "ant")
    model = RectifierClassifier(hidden_sizes=(4,), max_epochs=30, random_state=0)
    figure = draw(model.fit(X, y), domain=BOX, X=X, y=y)
    assert set(words(figure)) == {
        *("decides for ant", "decides for cat", "decision boundary"),
        *("training data: ant", "training data: cat"),
    }
    ants, cats = figure.axes[1].collections[-2:]
    assert np.array_equal(ants.get_offsets(), X[y == "ant"])
    assert np.array_equal(cats.get_offsets(), X[y == "cat"])
    assert len(ants.get_paths()[0]) != len(cats.get_paths()[0])
    assert len(figure.axes[0].collections) == 2  # no data on the cells


def test_numbers_are_coloured_like_the_function():
    """A regression's rows have the colours of their targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X.sum(axis=1)
    model = RectifierRegressor(hidden_sizes=(4,), max_epochs=5, random_state=0)
    ax = draw(model.fit(X, y), domain=BOX, X=X, y=y, level=None).axes[1]
    dots = ax.collections[-1]
    assert np.array_equal(dots.get_array(), y)
    assert dots.get_clim() == ax.images[0].get_clim()


def test_labels_at_a_single_output_have_the_colours_of_its_sides():
    """Of two labels the first is blue, as values below the level are."""
    figure = draw(DIAMOND, domain=BOX, X=[[0, 0], [2, 2]], y=[1, 0])
    low, high = figure.axes[1].collections[-2:]
    assert low.get_offsets().tolist() == [[2, 2]]
    for dots, colour in ((low, "#0072b2"), (high, "#d55e00")):
        assert to_hex(dots.get_facecolor()[0]) == colour


def test_rows_without_labels():
    """They are all alike."""
    figure = draw(DIAMOND, domain=BOX, X=[[0, 1], [1, 0]])
    assert words(figure) == ["output = 0", "training data"]
    assert len(figure.axes[1].collections[-1].get_offsets()) == 2


def test_a_plane_through_many_inputs_with_projected_rows():
    """Rows are drawn at the nearest point of the plane, and the legend says so."""
    network = rational_network([([[1], [2], [3], [4]], [1])])
    plane = ([1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 1, 1])
    figure = draw(
        network, domain=BOX, plane=plane, X=[[9, 4, 1, 2]], y=[1], show="function"
    )
    ax = figure.axes[0]
    assert np.allclose(ax.collections[-1].get_offsets(), [[2, 1.5]])
    assert words(figure)[-1] == "training data, projected: 1"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("s, along u", "t, along v")
    x, y = collections(ax, LineCollection)[0].get_segments()[0].T
    assert np.allclose(2 + 4 * x + 7 * y, 0)


def test_axes_that_are_given_are_drawn_into():
    """One panel, the function unless something else is wanted, with its legend."""
    figure = Figure()
    ax = figure.subplots()
    assert draw(DIAMOND, ax, domain=BOX) is figure
    assert len(ax.images) == 1
    assert ax.get_title().startswith("4 activation patterns")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["output = 0"]
    assert figure.get_suptitle() == ""


def test_a_thousand_cells_take_seconds(tmp_path):
    """2-32-32 on a box with 1,027 cells."""
    start = time.process_time()
    figure = draw(anchor(2, 32, 32, 1), tmp_path / "many.png", domain=(-1, 1))
    assert time.process_time() - start < 10
    assert figure.get_suptitle().startswith("1,027 activation patterns, 1,027 linear")


def test_the_budget_is_kept():
    """Too many cells are not drawn."""
    with pytest.raises(BudgetError, match="more than 3 cells, the budget"):
        draw(DIAMOND, domain=BOX, budget=3)


def test_without_matplotlib_there_is_a_hint(monkeypatch):
    """It says what to install."""
    monkeypatch.setattr(picture, "find_spec", lambda _: None)
    assert util.find_spec("matplotlib") is not None
    with pytest.raises(ParameterError, match=r"Run pip install 'hardzero\[plots\]'"):
        draw(DIAMOND, domain=BOX)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"domain": None}, "the domain is unbounded or flat. Give a box"),
        ({"domain": ((0, 0), (0, 1))}, "the domain is unbounded or flat"),
        ({"show": "all"}, 'show is \'all\', expected "cells", "function", or None'),
        ({"path_or_axes": "picture.pdf"}, "picture.pdf, expected a name that ends in"),
        ({"path_or_axes": 3}, "path_or_axes is a int, expected a path, axes"),
        ({"plane": 3}, r"plane is a int, expected \(origin, u, v\)"),
        ({"y": [1]}, "y was given without X"),
        ({"X": [[1, 2, 3]]}, r"X has shape \(1, 3\), expected \(n_rows, 2\)"),
        ({"X": [[1, 2]], "y": [1, 2]}, r"y has shape \(2,\), expected \(1,\)"),
        ({"level": "x"}, "level is 'x', expected a finite number"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments, message):
    """Before anything is drawn, with what to give."""
    arguments = {"domain": BOX, **arguments}
    with pytest.raises(ParameterError, match=message):
        draw(DIAMOND, **arguments)


def test_more_inputs_than_two_need_a_plane():
    """There is a way to draw them."""
    network = rational_network([([[1]] * 3, [0])])
    with pytest.raises(ParameterError, match=r"3 inputs, and a picture two\. Give"):
        draw(network, domain=BOX)


def test_numbers_too_large_for_a_picture_are_told():
    """The domain or the function, with its size."""
    network = rational_network([([[1], [1]], [0])])
    with pytest.raises(ParameterError, match="corners of the domain are as large as"):
        draw(network, domain=(-(10**200), 1))
    steep = rational_network([([[10**400], [1]], [0])])
    with pytest.raises(ParameterError, match="outputs are as large as inf"):
        draw(steep, domain=(-1, 1))
