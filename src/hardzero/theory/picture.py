"""Draw a network with two inputs: its cells, its function, its decision boundary.

A network with more inputs is drawn on a plane through its input space.
"""

import colorsys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from importlib.util import find_spec
from itertools import islice, pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hardzero.atomic import replacing
from hardzero.errors import ParameterError
from hardzero.theory.boundary import Boundary, decision_boundary, leaders
from hardzero.theory.cone import Cone
from hardzero.theory.convert import as_network
from hardzero.theory.rational import RationalNetwork, nearest_float, to_fraction
from hardzero.theory.regions import Cell, Regions
from hardzero.theory.slice import slice_plane

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw"]

Array = np.ndarray[Any, Any]

_FORMATS: Final = (".png", ".svg")
_PANELS: Final = ("cells", "function")
_RESOLUTION: Final = 500  # points along each axis at which the function is taken
# Told apart by the colour-blind, also when mixed with white.
_LOW, _HIGH = "#0072b2", "#d55e00"
_COLOURS: Final = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#f0e442"),
    *("#882255", "#56b4e9", "#d55e00", "#999933", "#777777"),
)
_MARKERS: Final = "o^sDvP<X>p"
_LARGEST: Final = 1e100
_DARK: Final = "#1a1a1a"


def draw(
    model: Any,
    path_or_axes: Any = None,
    *,
    domain: Any,
    X: Any = None,
    y: Any = None,
    plane: Any = None,
    level: Any = 0,
    show: str | None = None,
    title: str | None = None,
    budget: int = 100_000,
    verbose: bool = False,
) -> "Figure":
    """Draw the cells, the function and the decision boundary of a network.

    Parameters
    ----------
    model : object
        Any model that `hardzero.theory.as_network` reads, with two inputs unless there
        is a `plane`.
    path_or_axes : path, matplotlib Axes or None, default=None
        File to write, ``.png`` or ``.svg``, or axes to draw into. None leaves it at the
        returned figure.
    domain : (lower, upper) or (A, b)
        The box or bounded polygon that is drawn, of two dimensions: those of the
        inputs, or (s, t) of the plane.
    X : array_like of shape (n_rows, n_inputs), optional
        Training data, drawn on top. With a `plane`, each row is drawn at the nearest
        point of the plane.
    y : array_like of shape (n_rows,), optional
        Their labels, or numbers, which are coloured like the function if there are
        more than ten different ones.
    plane : (origin, u, v), optional
        Draw f(origin + s u + t v) over s and t.
    level : int, float, Fraction, str or None, default=0
        Where the decision boundary of a network with one output is. None draws none,
        and colours the function from its least to its largest value.
    show : {"cells", "function"}, optional
        What is drawn: cells in pastel colours, those with the same activation pattern
        always in the same one, or the function: its values, in floats, if there is one
        output, else which output leads, in colours that repeat after ten. By default
        both side by side, or the function if there are axes.
    title : str, optional
        A line above the counts of cells.
    budget : int, default=100_000
        Largest number of cells that are drawn.
    verbose : bool, default=False
        Whether a progress bar is shown on standard error.

    Returns
    -------
    matplotlib Figure
        What was drawn; the file, if there is one, is written.

    Raises
    ------
    ParameterError
        If matplotlib is not installed, or an argument cannot be used.
    BudgetError
        If there are too many cells.
    OSError
        If the file cannot be written.
    """
    if find_spec("matplotlib") is None:
        raise ParameterError(
            "No picture can be drawn, because matplotlib is not installed. Run pip "
            "install 'hardzero[plots]'."
        )
    from matplotlib.figure import Figure

    path = _path(path_or_axes)
    given: Any = None if path else path_or_axes
    panels = _panels(show, given)
    scene = _scene(model, domain, plane, level, budget, verbose)
    data = None if X is None and y is None else _data(scene, model, X, y, plane)
    if given is not None:
        figure: Figure = given.figure
        axes = [given]
        given.set_title(_heading(scene, title), fontsize="medium")
    else:
        figure = Figure(figsize=_size(scene, len(panels)), layout="constrained")
        figure.suptitle(_heading(scene, title))
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
    handles: list[Any] = []
    for ax, panel in zip(axes, panels, strict=True):
        handles = (
            _draw_cells(ax, scene) if panel == "cells" else _draw_function(ax, scene)
        )
        handles += _draw_boundary(ax, scene)
        if panel == panels[-1] and data is not None:
            handles += _draw_data(ax, scene, data)
        _finish(ax, scene, plane is not None)
    if handles and given is None:
        n_columns = 1 + len(panels)
        figure.legend(
            handles=handles, loc="outside lower center", ncols=n_columns, frameon=False
        )
    elif handles:
        given.legend(handles=handles, fontsize="small", framealpha=0.9)
    if path is not None:
        with replacing(path) as stream:
            figure.savefig(stream, format=path.suffix.lower()[1:], dpi=150)
    return figure


@dataclass(frozen=True, eq=False)
class _KeptRegions(Regions[Cone]):
    """Regions that are found once: a picture goes through them several times."""

    def __iter__(self) -> Iterator[Cell[Cone]]:
        """Yield the cells, no more than one above the budget."""
        yield from self._cells

    @cached_property
    def _cells(self) -> tuple[Cell[Cone], ...]:
        return tuple(islice(super().__iter__(), self.budget + 1))


@dataclass(frozen=True, eq=False)
class _Scene:
    """What there is to draw."""

    regions: Regions[Cone]
    level: Fraction | None
    names: dict[int, str]  # of the classes

    @property
    def network(self) -> RationalNetwork:
        return self.regions.network

    @cached_property
    def boundary(self) -> Boundary | None:
        return None if self.level is None else Boundary(self.regions, self.level)

    @cached_property
    def colours(self) -> dict[int, str]:
        """The colour of each class."""
        if self.network.n_outputs == 1:
            return {0: _LOW, 1: _HIGH}
        return {k: _COLOURS[k % len(_COLOURS)] for k in self.names}

    @cached_property
    def outline(self) -> Array:
        """The corners of the domain, in a circle."""
        return _polygon(self.regions.cone)

    @cached_property
    def polygons(self) -> list[Array]:
        """The corners of each cell, in a circle."""
        return [_polygon(cell.piece.cone) for cell in self.regions]

    @cached_property
    def values(self) -> Array:
        """The single output on a grid over the domain, rows from bottom to top."""
        axes = (
            low + (np.arange(_RESOLUTION) + 0.5) * (high - low) / _RESOLUTION
            for low, high in _limits(self.outline)
        )
        x, y = np.meshgrid(*axes)
        return _evaluate(self.network, np.stack([x.ravel(), y.ravel()])).reshape(
            x.shape
        )

    @cached_property
    def colouring(self) -> dict[str, Any]:
        """How values become colours: what matplotlib's functions ask for."""
        if self.level is None:
            low, high = self.values.min(), self.values.max()
            return {"cmap": "cividis", "vmin": low, "vmax": high}
        # A few steep cells must not leave all others white.
        level = float(self.level)
        reach = float(np.quantile(np.abs(self.values - level), 0.95)) or 1.0
        return {"cmap": _blue_to_orange(), "vmin": level - reach, "vmax": level + reach}


@dataclass(frozen=True, eq=False)
class _Data:
    """Training data as it is drawn: by groups, or with a colour for each row."""

    where: Array
    label: str
    values: Array | None
    groups: list[tuple[str, str, str, Array]]  # label, colour, marker, which rows


def _path(given: Any) -> Path | None:
    if not isinstance(given, (str, PathLike)):
        if given is None or hasattr(given, "add_collection"):
            return None
        raise ParameterError(
            f"path_or_axes is a {type(given).__name__}, expected a path, axes of "
            "matplotlib, or None."
        )
    path = Path(given)
    if path.suffix.lower() not in _FORMATS:
        raise ParameterError(
            f"the picture is to go to {path.name}, expected a name that ends in .png "
            "or .svg."
        )
    return path


def _panels(show: str | None, given: Any) -> tuple[str, ...]:
    if show is None:
        return _PANELS if given is None else ("function",)
    if show not in _PANELS:
        raise ParameterError(
            f'show is {show!r}, expected "cells", "function", or None for both.'
        )
    return (show,)


def _scene(
    model: Any, domain: Any, plane: Any, level: Any, budget: int, verbose: bool
) -> _Scene:
    network = as_network(model)
    if plane is not None:
        if not isinstance(plane, (tuple, list)) or len(plane) != 3:
            raise ParameterError(
                f"plane is a {type(plane).__name__}, expected (origin, u, v): a point "
                f"and two directions, each with {network.n_inputs} entries."
            )
        network = slice_plane(network, *plane)
    if network.n_inputs != 2:
        raise ParameterError(
            f"the network has {network.n_inputs} inputs, and a picture two. Give plane="
            "(origin, u, v) to draw it on a plane through its inputs."
        )
    # This checks the level, too.
    wanted = 0 if level is None else level
    found = decision_boundary(network, domain, level=wanted, budget=budget).regions
    if not found.cone.is_bounded or found.cone.dimension != 2:
        raise ParameterError(
            "the domain is unbounded or flat. Give a box (lower, upper) with lower < "
            "upper for both coordinates, for example domain=((-1, -1), (1, 1))."
        )
    _check_sizes(network, found.cone)
    classes = getattr(model, "classes_", None)
    keys = list(range(max(network.n_outputs, 2)))
    labels = keys if classes is None or len(classes) != len(keys) else list(classes)
    return _Scene(
        _KeptRegions(network, found.domain, budget, verbose, found.cone),
        None if level is None else to_fraction(level, "level"),
        {key: str(label) for key, label in zip(keys, labels, strict=True)},
    )


def _check_sizes(network: RationalNetwork, cone: Cone) -> None:
    """Refuse what floats cannot draw."""
    corners = [a for x in cone.vertices for a in x]
    values = [y for x in cone.vertices for y in network(x)]
    for what, numbers in (("corners of the domain", corners), ("outputs", values)):
        largest = max(map(abs, numbers))
        if largest > _LARGEST:
            raise ParameterError(
                f"{what} are as large as {nearest_float(largest):g}, and a picture "
                f"takes numbers up to {_LARGEST:g}. Rescale the network or its domain."
            )


def _data(scene: _Scene, model: Any, X: Any, y: Any, plane: Any) -> _Data:
    if X is None:
        raise ParameterError("y was given without X. Give the rows that it labels.")
    where = np.asarray(X, dtype=float)
    n_inputs = 2 if plane is None else len(plane[0])
    if where.ndim != 2 or where.shape[1] != n_inputs:
        raise ParameterError(
            f"X has shape {where.shape}, expected (n_rows, {n_inputs}), one column for "
            "each input of the network."
        )
    labels = None if y is None else np.asarray(y)
    if labels is not None and labels.shape != (len(where),):
        raise ParameterError(
            f"y has shape {labels.shape}, expected ({len(where)},), one label for each "
            "row of X."
        )
    label = "training data"
    if plane is not None:
        origin, u, v = (
            np.array([float(to_fraction(a, "an entry of plane")) for a in vector])
            for vector in plane
        )
        directions = np.column_stack([u, v])
        where = np.linalg.lstsq(directions, (where - origin).T, rcond=None)[0].T
        label += ", projected"
    if labels is None:
        everything = np.ones(len(where), dtype=bool)
        return _Data(where, label, None, [(label, "white", "o", everything)])
    kinds = np.unique(labels)
    if len(kinds) > len(_MARKERS) and labels.dtype.kind in "iuf":
        return _Data(where, label, labels.astype(float), [])
    known = np.asarray(getattr(model, "classes_", kinds))
    colours: Sequence[str] = _COLOURS
    if len(known) == len(scene.names):
        colours = list(scene.colours.values())
    groups = []
    for kind in kinds:
        place = int(np.searchsorted(known, kind))
        colour, marker = colours[place % len(colours)], _MARKERS[place % len(_MARKERS)]
        groups.append((f"{label}: {kind}", colour, marker, labels == kind))
    return _Data(where, label, None, groups)


def _size(scene: _Scene, n_panels: int) -> tuple[float, float]:
    """Return width and height of a figure, in inches."""
    (left, right), (bottom, top) = _limits(scene.outline)
    shape = min(max((top - bottom) / (right - left), 0.4), 1.6)
    return 6.4 * n_panels, 5.2 * shape + 1.5


def _heading(scene: _Scene, title: str | None) -> str:
    regions = scene.regions
    counts = ", ".join(
        f"{n:,} {word}{'' if n == 1 else 's'}"
        for n, word in (
            (regions.n_activation_patterns, "activation pattern"),
            (regions.n_linear_regions, "linear region"),
            (regions.n_affine_maps, "affine map"),
        )
    )
    return counts if title is None else f"{title}\n{counts}"


def _draw_cells(ax: "Axes", scene: _Scene) -> list[Any]:
    colours = [_pastel(repr(cell.pattern)) for cell in scene.regions]
    _fill(ax, scene.polygons, colours, _edges(scene, 0.6))
    return []


def _draw_function(ax: "Axes", scene: _Scene) -> list[Any]:
    handles = []
    if scene.network.n_outputs == 1:
        _shade_values(ax, scene)
    else:
        handles = _shade_classes(ax, scene)
    _fill(ax, scene.polygons, "none", _edges(scene, 0.25))
    return handles


def _shade_values(ax: "Axes", scene: _Scene) -> None:
    from matplotlib.patches import Polygon

    (left, right), (bottom, top) = _limits(scene.outline)
    image = ax.imshow(
        scene.values,
        origin="lower",
        extent=(left, right, bottom, top),
        interpolation="bilinear",
        **scene.colouring,
    )
    image.set_clip_path(Polygon(scene.outline, transform=ax.transData))
    low, high = scene.colouring["vmin"], scene.colouring["vmax"]
    beyond = scene.values.min() < low, scene.values.max() > high
    extend = ("neither", "max", "min", "both")[2 * beyond[0] + beyond[1]]
    ax.figure.colorbar(image, ax=ax, label="output", shrink=0.8, extend=extend)


def _shade_classes(ax: "Axes", scene: _Scene) -> list[Any]:
    """Fill where each output leads with a pale form of its colour."""
    from matplotlib.patches import Patch

    areas: dict[int, list[Array]] = {}
    for cell in scene.regions:
        for leader, part in leaders(cell.piece.cone, cell.piece.outputs):
            areas.setdefault(leader, []).append(_polygon(part))
    handles = []
    for leader, polygons in sorted(areas.items()):
        colour = _mixed(scene.colours[leader], 0.6)
        _fill(ax, polygons, colour, (colour, 0.3))
        handles.append(Patch(color=colour, label=f"decides for {scene.names[leader]}"))
    return handles


def _fill(
    ax: "Axes", polygons: Sequence[Array], colours: Any, edges: tuple[Any, float]
) -> None:
    from matplotlib.collections import PolyCollection

    colour, width = edges
    ax.add_collection(
        PolyCollection(
            polygons, facecolors=colours, edgecolors=colour, linewidths=width
        )
    )


def _draw_boundary(ax: "Axes", scene: _Scene) -> list[Any]:
    """Draw the pieces, and what of the boundary is flat or a point."""
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if scene.boundary is None:
        return []
    is_single = scene.network.n_outputs == 1
    what = f"output = {scene.level}" if is_single else "decision boundary"
    tie = what if is_single else "tie"
    handles: list[Any] = []
    flat = [_polygon(part.cone) for part in scene.boundary.flat_parts]
    if flat:
        style: dict[str, Any] = {"facecolor": "none", "edgecolor": _DARK}
        style |= {"hatch": "///", "linewidth": 0}
        ax.add_collection(PolyCollection(flat, **style))
        handles.append(Patch(label=f"{tie} on a cell", **style))
    for changes, dashes, label in (
        (True, "solid", what),
        (False, (0, (2, 1.5)), f"{tie}, same decision beyond"),
    ):
        segments = [
            _polygon(piece.cone)
            for piece in scene.boundary.pieces
            if piece.changes == changes
        ]
        if segments:
            style = {"color": _DARK, "linestyle": dashes, "linewidth": 2.2}
            ax.add_collection(
                LineCollection(segments, capstyle="round", zorder=3, **style)
            )
            handles.append(Line2D([], [], label=label, **style))
    dots = [_polygon(part.cone)[0] for part in scene.boundary.thin_parts]
    if dots:
        style = {"color": _DARK, "marker": "o", "linestyle": "none", "markersize": 5}
        ax.plot(*np.transpose(dots), zorder=3, **style)
        handles.append(Line2D([], [], label=f"{tie} at a point", **style))
    return handles


def _draw_data(ax: "Axes", scene: _Scene, data: _Data) -> list[Any]:
    style: dict[str, Any] = {
        "edgecolors": _DARK,
        "linewidths": 0.5,
        "s": 60 if len(data.where) <= 50 else 28 if len(data.where) <= 500 else 12,
        "zorder": 4,
    }
    if data.values is not None:
        style |= {"c": data.values, "label": data.label}
        x, y = data.where.T
        return [ax.scatter(x, y, **style, **scene.colouring)]
    return [
        ax.scatter(
            *data.where[chosen].T,
            facecolors=colour,
            marker=marker,
            label=label,
            **style,
        )
        for label, colour, marker, chosen in data.groups
    ]


def _finish(ax: "Axes", scene: _Scene, is_plane: bool) -> None:
    horizontal, vertical = _limits(scene.outline)
    ax.set_xlim(*horizontal)
    ax.set_ylim(*vertical)
    ax.set_aspect("equal")
    ax.set_xlabel("s, along u" if is_plane else "input 0")
    ax.set_ylabel("t, along v" if is_plane else "input 1")


def _polygon(cone: Cone) -> Array:
    """Return the corners of a bounded polygon in floats, in a circle."""
    corners = np.array([[a / ray[-1] for a in ray[:-1]] for ray in cone.rays])
    x, y = (corners - corners.mean(axis=0)).T
    return corners[np.argsort(np.arctan2(y, x), kind="stable")]


def _limits(polygon: Array) -> list[tuple[float, float]]:
    """Return the range of each coordinate."""
    return list(zip(polygon.min(axis=0), polygon.max(axis=0), strict=True))


def _evaluate(network: RationalNetwork, h: Array) -> Array:
    """Return the first output in floats, for inputs of shape (n_inputs, n_points)."""
    scales = (Fraction(1), *network.scales)
    for layer, (before, after) in zip(network.layers, pairwise(scales), strict=True):
        weight = after / before
        h = np.stack(
            [
                np.max(
                    [
                        np.array([float(a * weight) for a in row[:-1]]) @ h
                        + float(row[-1] * after)
                        for row in unit
                    ],
                    axis=0,
                )
                for unit in layer
            ]
        )
    values: Array = h[0]
    return values


def _edges(scene: _Scene, opacity: float) -> tuple[tuple[float, ...], float]:
    """Return colour and width of the lines around cells; many must not hide all."""
    n_cells = len(scene.polygons)
    width = 0.6 if n_cells <= 300 else 0.4 if n_cells <= 1500 else 0.2
    return (0.1, 0.1, 0.1, opacity), width


def _pastel(pattern: str) -> tuple[float, ...]:
    """Return a pale colour that depends on nothing but the pattern."""
    number = zlib.crc32(pattern.encode())
    hue, strength = number % 997 / 997, number // 997 % 7 / 6
    return colorsys.hsv_to_rgb(hue, 0.10 + 0.20 * strength, 0.98 - 0.06 * strength)


def _mixed(colour: str, share: float) -> str:
    """Return a colour mixed with a share of white."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(c + (255 - c) * share):02x}" for c in parts)


def _blue_to_orange() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    ends = [_mixed(_LOW, 0.25), "#ffffff", _mixed(_HIGH, 0.25)]
    return LinearSegmentedColormap.from_list("blue to orange", ends)
