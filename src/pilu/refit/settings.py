"""What a user sets for a refit, checked."""

from dataclasses import dataclass, fields
from typing import Any

from pilu._checks import LARGEST_NUMBER, check_flag, check_probability, check_real
from pilu.accounting.gdp import mu_from_epsilon
from pilu.exceptions import WrongInput


@dataclass(frozen=True)
class Options:
    """What a user sets: the guarantee, the noise, and what is released."""

    epsilon: float
    delta: float
    score_noise: float
    noise_scale: float | None = None  # s of shaped noise, if it is fixed
    max_exposure: float | None = None  # the cap by which s is chosen
    exposure_delta: float = 1e-6
    exposure_quantile: float = 1.0
    fold_scaler: bool = False

    @classmethod
    def checked(cls, **given: Any) -> "Options":
        """Options in their ranges, or an error that names the argument."""
        given = {f.name: f.default for f in fields(cls)} | given
        scale, most, share = (
            given[name] for name in ("noise_scale", "max_exposure", "exposure_quantile")
        )
        if scale is not None and most is not None:
            raise WrongInput(
                "noise_scale and max_exposure must not both be given, got "
                f"noise_scale={scale!r} and max_exposure={most!r}. Leave out noise_scale to have "
                "it chosen, or max_exposure to fix it."
            )
        if most is not None:
            most = check_real("max_exposure", most, least=1e-6, most=1e3)
        if scale is not None:
            scale = check_real("noise_scale", scale, above=0.0, most=LARGEST_NUMBER)
        return cls(
            check_real("epsilon", given["epsilon"], least=1e-9, most=1e4),
            check_probability("delta", given["delta"]),
            check_real("score_noise", given["score_noise"], above=0.0, most=1.0),
            scale,
            most,
            check_probability("exposure_delta", given["exposure_delta"]),
            check_real("exposure_quantile", share, above=0.0, most=1.0),
            check_flag("fold_scaler", given["fold_scaler"]),
        )

    @property
    def mu(self) -> float:
        """Distance of the two laws in standard deviations that epsilon and delta allow."""
        return float(mu_from_epsilon(self.epsilon, self.delta)) * (1 - 1e-9)

    @property
    def shaped(self) -> bool:
        """Whether the noise is shaped by the rows."""
        return self.noise_scale is not None or self.max_exposure is not None
