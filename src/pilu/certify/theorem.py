"""The paper's accountant: Theorem 1, with the (QP) solved for every request."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_choice, check_probability, complaint
from pilu.accounting.curves import Curve, GaussianCurve
from pilu.accounting.endless import pooled_steps, window_length
from pilu.accounting.gdp import epsilon_from_mu, mu_from_epsilon
from pilu.accounting.shifted import (
    Blocks,
    blocks_from_sensitivities,
    extra_noise_for_each,
    later_variance,
    representable_contraction,
)
from pilu.certify.accountant import (
    TOLERANCE,
    Calibration,
    Progress,
    Target,
    require,
    require_close,
)
from pilu.certify.certificate import Certificate, sha256_of
from pilu.chains.problem import Law
from pilu.chains.sensitivities import ROUNDING, Sensitivities
from pilu.data.rows import Request
from pilu.exceptions import WrongInput

Array = NDArray[np.float64]

_ROOM = 1 + 1e-11  # for blocks that are rounded up when pooled and coarsened
_LEAST_SLACK = 1e-305  # below it, logarithms and quotients would fail
_EVIDENCE_BLOCKS = 5  # with step size and contraction: twelve numbers


@dataclass(frozen=True)
class Theorem:
    """Theorem 1 of the paper: shifted interpolation over high-probability sensitivity bounds.

    Parameters
    ----------
    delta_split : float in (0, 1), default=0.5
        Share of delta set aside for the sensitivity bounds (delta_s); the rest is delta_m.
    strong_convexity : {"alpha", "retained"}, default="alpha"
        "alpha" is the paper's m = lambda. "retained" is the smallest eigenvalue of the problem
        without the requested rows. It is never smaller, and costs a root search per row.
    group : {"sum", "joint"}, default="sum"
        How a group of R rows is bounded: by the paper's triangle inequality with delta_s/(R N), or
        by the norm of the summed gradient, which is tighter.
    """

    delta_split: float = 0.5
    strong_convexity: str = "alpha"
    group: str = "sum"

    takes_corrections: ClassVar[bool] = False

    def __post_init__(self) -> None:
        # A Python float, because the certificate records it.
        object.__setattr__(self, "delta_split", check_probability("delta_split", self.delta_split))
        check_choice("strong_convexity", self.strong_convexity, ("alpha", "retained"))
        check_choice("group", self.group, ("sum", "joint"))

    def describe(self) -> dict[str, Any]:
        """Name and options, as a certificate records them."""
        return {"name": "theorem", **asdict(self)}

    def prepare(self, law: Law, rows: NDArray[np.intp]) -> None:
        """Compute once what the bounds for these rows share."""
        chain = self._sensitivities(law)
        if self.group == "sum":
            chain.prepare(rows)

    def calibrate(self, law: Law, request: Request, target: Target) -> Calibration:
        """The least noise that certifies the target for one request   [PILU, Thm 1(ii)]."""
        bound = self._bound(law, request, self._slack(target), target.n_unlearn_steps)
        mu = self._target_mu(target)
        noise = target.raised(self._least_noise(law, bound, target))
        answer = self._calibration(law, bound, noise, target)
        if answer.mu is None or answer.mu > mu:
            raise ArithmeticError("the calibrated noise misses its target; please report this")
        # mu_from_epsilon guarantees that mu implies the target, so epsilon is at most the target.
        return replace(answer, epsilon=min(answer.epsilon, target.epsilon))

    def _least_noise(self, law: Law, bound: "_Bound", target: Target) -> float:
        extra = bound.blocks.extra_for(self._target_mu(target) / _ROOM)
        unit = _variance_of_unit_noise(law, target, bound.contraction)
        return math.sqrt(extra / unit) * (1 + ROUNDING)

    def calibrate_each(
        self, law: Law, blocks: Iterable[Request], target: Target, progress: Progress
    ) -> tuple[Array, Array]:
        """Noise and certified epsilon of every row as a separate request."""
        parts, chain = [], self._sensitivities(law)
        for rows in blocks:
            parts.append(self._calibrate_block(law, chain, rows, target))
            progress(len(rows.X))
        noise, epsilon = (np.concatenate(part) for part in zip(*parts, strict=True))
        return noise, epsilon

    def calibrate_groups(
        self,
        law: Law,
        blocks: Iterable[tuple[Request, NDArray[np.intp]]],
        target: Target,
        progress: Progress,
    ) -> tuple[Array, Array]:
        """Noise and certified epsilon of groups of rows, each a request."""
        answers = []
        for block, sizes in blocks:
            for end, size in zip(np.cumsum(sizes).tolist(), sizes.tolist(), strict=True):
                answer = self.calibrate(law, block.part(slice(end - size, end)), target)
                answers.append((answer.noise, answer.epsilon))
                progress(1)
        noise, epsilon = np.array(answers).T
        return noise, epsilon

    def calibrate_any(
        self, law: Law, blocks: Iterable[Request], target: Target, group_size: int = 1
    ) -> float:
        """One noise that certifies the target for any `group_size` rows of the blocks.

        mu is subadditive in the sensitivities (docs/baselines.md, "Uniform Langevin"). So R rows
        with mu/R and slack/R each have mu together.
        """
        if self.strong_convexity != "alpha":
            raise complaint(
                "strong_convexity",
                "'alpha' for one noise for all rows",
                self.strong_convexity,
                "The smallest eigenvalue without a row depends on the row.",
            )
        chain = self._sensitivities(law)
        parts = (self._calibrate_block(law, chain, rows, target, group_size) for rows in blocks)
        return float(np.max([np.max(noise) for noise, _ in parts]))

    def _calibrate_block(
        self, law: Law, chain: Sensitivities, rows: Request, target: Target, parts: int = 1
    ) -> tuple[Array, Array]:
        """Noise and epsilon of each row for 1/`parts` of the target's mu and slack."""
        sensitivities = chain.of_each(rows, self._slack(target) / parts)
        mu, floor = self._target_mu(target) / parts, target.floor
        n, alike = len(rows.X), 1  # the number of rows with the same contraction
        if self.strong_convexity == "alpha":
            alike = max(n, 1)
        noise, reached = np.empty(n), np.empty(n)
        for start in range(0, n, alike):
            part = slice(start, start + alike)
            c = self._contraction(law, chain, rows.part(part), target.n_unlearn_steps)
            unit = _variance_of_unit_noise(law, target, c)
            extra, reached[part] = extra_noise_for_each(
                *_steps(law, sensitivities[part], c), c, mu / _ROOM, least=floor**2 * unit
            )
            noise[part] = np.sqrt(extra / unit) * (1 + ROUNDING)
            noise[part] = np.where(extra == floor**2 * unit, floor, noise[part])
        # mu_from_epsilon guarantees that mu implies the target, so epsilon is at most the target.
        epsilon = np.asarray(epsilon_from_mu(reached, self._delta_gdp(target)))
        return noise, np.where(reached <= mu, np.minimum(epsilon, target.epsilon), epsilon)

    def spend(self, law: Law, request: Request, noise: float, target: Target) -> Calibration:
        """What a given noise certifies: the theorem reversed."""
        bound = self._bound(law, request, self._slack(target), target.n_unlearn_steps)
        return self._calibration(law, bound, noise, target)

    def mu_now(self, law: Law, request: Request, slack: float) -> float:
        """mu of the chain as it is, without later steps, outside an event of probability `slack`.

        It is infinite where some gradient meets no noise.
        """
        return self._bound(law, request, slack, 0).blocks.mu()

    def _bound(self, law: Law, request: Request, slack: float, n_steps: int) -> "_Bound":
        chain = self._sensitivities(law)
        if self.group == "joint" and len(request.X) > 1:
            s = chain.of_group_jointly(request, slack)
        else:
            s = chain.of_group_sum(request, slack)
        c = self._contraction(law, chain, request, n_steps)
        return _Bound(blocks_from_sensitivities(*_steps(law, s, c), c), c)

    def _calibration(self, law: Law, bound: "_Bound", noise: float, target: Target) -> Calibration:
        blocks, c = bound
        extra = noise**2 * _variance_of_unit_noise(law, target, c)
        pooled = blocks.pooled(extra)
        kept = pooled.coarsened(_EVIDENCE_BLOCKS)
        mu, chain = kept.mu_as_pooled(extra), self._sensitivities(law)
        terms = chain.terms(self._slack(target))
        return Calibration(
            noise=noise,
            epsilon=float(epsilon_from_mu(mu, self._delta_gdp(target))),
            delta=target.delta,
            mu=mu,
            both_directions=False,
            slack=self._slack(target),
            curve=GaussianCurve(mu, self._slack(target)),
            # The paper's formula is the optimum of the (QP) exactly if all steps are in one block.
            checks={"closed_form_feasible": len(pooled.masses) == 1},
            evidence={
                "blocks": np.column_stack([kept.masses, kept.variances]).tolist(),
                "contraction": c,
                "step_size": law.step_size,
                **({"terms": terms} if terms else {}),
            },
            numerical_error={
                "sensitivities_relative": chain.rounding,
                "quantiles_relative": 1e-9,
                "conversions_relative": 1e-9,
            },
            terms=terms,
        )

    def _sensitivities(self, law: Law) -> Sensitivities:
        chain = law.sensitivities
        chain.check_options(group=self.group, strong_convexity=self.strong_convexity)
        return chain

    def _target_mu(self, target: Target) -> float:
        return float(mu_from_epsilon(target.epsilon, self._delta_gdp(target)))

    def _delta_gdp(self, target: Target) -> float:
        return target.delta - self._slack(target)

    def _slack(self, target: Target) -> float:
        # delta_s, for all sensitivity bounds together
        slack = self.delta_split * target.delta
        if slack < _LEAST_SLACK:
            raise complaint("delta", f"at least {_LEAST_SLACK:g} over delta_split", target.delta)
        return slack

    def _contraction(self, law: Law, chain: Sensitivities, request: Request, n_steps: int) -> float:
        if self.strong_convexity == "alpha" and law.alpha == 0.0:
            raise WrongInput(
                "alpha must be > 0 for Theorem(strong_convexity='alpha'), got alpha=0.0. Use "
                "Theorem(strong_convexity='retained'), or fit with a positive alpha."
            )
        c = chain.contraction(request, self.strong_convexity)
        return representable_contraction(n_steps, c)

    @staticmethod
    def check(certificate: Certificate) -> None:
        """Check options, mu and the parts of delta."""
        c = certificate
        group, strong_convexity = c.accountant["group"], c.accountant["strong_convexity"]
        split = float(c.accountant["delta_split"])
        require(
            group in ("sum", "joint") and strong_convexity in ("alpha", "retained"),
            "the options are not the theorem's",
        )
        require(0 < split < 1, "delta_split is not in (0, 1)")
        require(c.mu is not None, "mu is missing")
        slack, terms = split * c.delta, _terms(c)
        certified = float(epsilon_from_mu(c.mu or 0.0, c.delta - slack))
        require(
            c.epsilon >= certified * (1 - TOLERANCE) - 1e-12, "epsilon is smaller than mu implies"
        )
        if terms:
            tails, means = float(terms["delta_tails"]), float(terms["delta_means"])
            require(
                0 < tails < slack and 0 < means < slack, "the parts of delta_s are out of range"
            )
            require_close("delta_tails + delta_means", tails + means, slack)
            runs, loss = terms["auxiliary_runs"], terms["loss"]
            require(type(runs) is int and runs >= 1, "auxiliary_runs is not a positive integer")
            require(isinstance(loss, Mapping) and "name" in loss, "the loss has no name")
            require(
                (group, strong_convexity) == ("sum", "alpha"),
                "the options are only valid for ridge",
            )

    @staticmethod
    def recompute(certificate: Certificate) -> tuple[float, Curve]:
        """Epsilon and the curve from the pooled blocks of the evidence."""
        c, evidence = certificate, certificate.evidence or {}
        numbers = np.array(evidence["blocks"], dtype=np.float64)
        contraction, step_size = float(evidence["contraction"]), float(evidence["step_size"])
        require(
            numbers.ndim == 2
            and numbers.shape[1] == 2
            and bool((np.isfinite(numbers) & (numbers >= 0)).all())
            and 0 < contraction <= 1
            and 0 < step_size < math.inf
            and 0 < c.n_unlearn_steps < 10**9,
            "the evidence is out of range",
        )
        require(
            sha256_of(_terms(c)) == sha256_of(evidence.get("terms", {})),
            "the terms differ from those in the evidence",
        )
        unit = 2 * step_size * later_variance(c.n_unlearn_steps, contraction)
        mu = Blocks(numbers[:, 0], numbers[:, 1]).mu_as_pooled(c.noise**2 * unit)
        slack = float(c.accountant["delta_split"]) * c.delta
        if c.accountant.get("coarse") is True:  # the requested epsilon is stated, an upper bound
            stated = float(mu_from_epsilon(c.epsilon_target, c.delta - slack))
            require(mu <= stated * (1 + TOLERANCE), "the noise is too small for epsilon")
            mu, epsilon = stated, c.epsilon_target
        else:
            epsilon = float(epsilon_from_mu(mu, c.delta - slack))
        require_close("mu", c.mu or 0.0, mu)
        return epsilon, GaussianCurve(mu, slack)


def _terms(c: Certificate) -> dict[str, Any]:
    """Further assumptions of a bound by concentration, for losses other than ridge."""
    names = {"loss", "auxiliary_runs", "delta_tails", "delta_means"}
    return {name: c.accountant[name] for name in names & set(c.accountant)}


class _Bound(NamedTuple):
    blocks: Blocks
    contraction: float


def _steps(law: Law, bounds: Array, contraction: float) -> tuple[Array, Array]:
    """Sensitivities and noise variances of the steps; all of learning at stationarity is one."""
    later = law.schedule.variances(law.step_size)
    if not law.schedule.is_stationary:
        return bounds, later
    variance = 2 * law.step_size * law.schedule.segments[0].noise ** 2
    window = window_length(law.step_size * law.alpha)
    return pooled_steps(bounds, later, window, variance, contraction)


def _variance_of_unit_noise(law: Law, target: Target, contraction: float) -> float:
    return 2 * law.step_size * later_variance(target.n_unlearn_steps, contraction)
