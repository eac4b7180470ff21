"""What a piecewise-linear network computes, exactly.

Every float is a dyadic rational, so that a network of rectifiers, leaky rectifiers or
maxima computes a function that whole numbers describe. Nothing here is rounded: regions
are counted, functions compared and maxima found in rational arithmetic.

Functions take a `RectifierStack`, a `StackModel`, a fitted estimator, a
``torch.nn.Sequential``, scikit-learn's ``MLPClassifier`` or ``MLPRegressor``, or what
`rational_network` builds.
"""

from hardzero.theory.boundary import (
    Boundary,
    BoundaryPiece,
    Component,
    TiedPart,
    decision_boundary,
)
from hardzero.theory.bounds import RegionBounds, count_arrangement, region_bounds
from hardzero.theory.canonical import (
    CanonicalForm,
    canonical_form,
    first_difference,
)
from hardzero.theory.certificate import Certificate, load_certificate, verify
from hardzero.theory.convert import as_network, as_stack
from hardzero.theory.equality import Equality, equal, same_decision
from hardzero.theory.extrema import (
    Extremum,
    UnitRange,
    maximum,
    minimum,
    preactivation_ranges,
    supremum_difference,
)
from hardzero.theory.files import load_network, save_network
from hardzero.theory.line import Crossing, Decision, LinePiece, PiecesAlong, along
from hardzero.theory.minimise import Minimised, Rewrite, minimise
from hardzero.theory.picture import draw
from hardzero.theory.rational import (
    MaxLayer,
    RationalNetwork,
    max_pool,
    rational_network,
)
from hardzero.theory.regions import Cell, Regions, linear_regions
from hardzero.theory.scales import balance_scales, normalise
from hardzero.theory.slice import restrict, slice_plane
from hardzero.theory.width import LeastWidth, least_width

__all__ = [
    "Boundary",
    "BoundaryPiece",
    "CanonicalForm",
    "Cell",
    "Certificate",
    "Component",
    "Crossing",
    "Decision",
    "Equality",
    "Extremum",
    "LeastWidth",
    "LinePiece",
    "MaxLayer",
    "Minimised",
    "PiecesAlong",
    "RationalNetwork",
    "RegionBounds",
    "Regions",
    "Rewrite",
    "TiedPart",
    "UnitRange",
    "along",
    "as_network",
    "as_stack",
    "balance_scales",
    "canonical_form",
    "count_arrangement",
    "decision_boundary",
    "draw",
    "equal",
    "first_difference",
    "least_width",
    "linear_regions",
    "load_certificate",
    "load_network",
    "max_pool",
    "maximum",
    "minimise",
    "minimum",
    "normalise",
    "preactivation_ranges",
    "rational_network",
    "region_bounds",
    "restrict",
    "same_decision",
    "save_network",
    "slice_plane",
    "supremum_difference",
    "verify",
]
