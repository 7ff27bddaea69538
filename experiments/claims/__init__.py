"""The paper's claims, one function each: what the tables say, and by which accountants it holds.

Every verdict is computed from the stored tables: True, False, or a word where a claim holds in part
or cannot be decided by so few runs. `THRESHOLDS` says what the words mean.
"""

from experiments.claims import baselines, horizons, minibatches, privacy
from experiments.claims.cifar10 import CIFAR10
from experiments.claims.finding import IN_PART, OPEN, THRESHOLDS, Claim, Finding, number

__all__ = ["CLAIMS", "IN_PART", "OPEN", "THRESHOLDS", "Finding", "number"]

DEPTH: tuple[Claim, ...] = (
    privacy.sensitivities_differ,
    privacy.runs_stay_under_bounds,
    privacy.less_epsilon_costs,
    privacy.rows_differ_in_utility,
    privacy.factor_four,
    baselines.one_level_is_conservative,
    privacy.gradient_orders,
    horizons.more_unlearning_helps,
    horizons.unlearning_saturates,
    horizons.long_training_hurts,
    baselines.better_than_dp_gd,
    baselines.opposite_behaviour,
    baselines.competitive_at_small_horizons,
    baselines.residual_remains,
    baselines.formula_is_exact_at_the_minimiser_only,
    minibatches.larger_batches_are_better,
    minibatches.small_batches_are_cheaper,
    minibatches.as_good_as_full_batch,
    minibatches.less_than_an_epoch,
)
MNIST: tuple[Claim, ...] = (
    privacy.sensitivities_differ,
    privacy.runs_stay_under_bounds,
    privacy.less_epsilon_costs,
    privacy.rows_differ_in_utility,
    baselines.one_level_is_conservative,
    privacy.gradient_orders,
    horizons.more_unlearning_helps,
    horizons.unlearning_saturates,
    horizons.long_training_hurts,
    baselines.better_than_dp_gd_at_every_row,
    baselines.opposite_behaviour,
    baselines.competitive_at_small_horizons,
    baselines.formula_is_exact_at_the_minimiser_only,
)
CLAIMS = {"depth": DEPTH, "mnist": MNIST, "cifar10": CIFAR10}
