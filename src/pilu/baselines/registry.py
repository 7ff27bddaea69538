"""Methods by name."""

from collections.abc import Iterable

from pilu._checks import complaint
from pilu.baselines.descent import DescentToDelete
from pilu.baselines.dp_gd import DPGD
from pilu.baselines.interface import Method
from pilu.baselines.langevin import Langevin
from pilu.baselines.leave_one_out import LeaveOneOut
from pilu.baselines.newton import NewtonStep
from pilu.baselines.projective import ProjectiveResidual
from pilu.baselines.retraining import Redraw, Retraining
from pilu.baselines.uniform import UniformLangevin

__all__ = ["METHODS", "resolve_methods"]

METHODS: dict[str, Method] = {
    "pilu-exact": Langevin("exact"),
    "pilu-theorem": Langevin("theorem"),
    "redraw": Redraw(),
    "retraining": Retraining(),
    "uniform-gdp": UniformLangevin("gdp"),
    "uniform-renyi": UniformLangevin("renyi"),
    "dp-gd": DPGD(accounting="gdp"),
    "dp-gd-renyi": DPGD(accounting="renyi"),
    "descent-to-delete": DescentToDelete(),
    "leave-one-out": LeaveOneOut(),
    "leave-one-out-early": LeaveOneOut(converged=False),
    "newton": NewtonStep(),
    "newton-bound": NewtonStep(converged=False, accounting="bound"),
    "newton-measured": NewtonStep(converged=False, accounting="measured"),
    "projective-residual": ProjectiveResidual(),
}


def resolve_methods(methods: Iterable[str | Method] | None) -> list[Method]:
    """Methods given by name or as objects; None is all of them."""
    if methods is None:
        return list(METHODS.values())
    if isinstance(methods, str) or not isinstance(methods, Iterable):
        methods = [methods]
    resolved = [_resolve(method) for method in methods]
    names = [method.name for method in resolved]
    twice = {name for name in names if names.count(name) > 1}
    if not resolved or twice:
        raise complaint("methods", "at least one, with distinct names", sorted(twice) or resolved)
    return resolved


def _resolve(method: str | Method) -> Method:
    if isinstance(method, str) and method in METHODS:
        return METHODS[method]
    if not isinstance(method, str | type) and hasattr(method, "fit") and hasattr(method, "name"):
        return method
    names = ", ".join(map(repr, METHODS))
    raise complaint("methods", f"among {names}, or method objects", method)
