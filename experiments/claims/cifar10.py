"""Claims about CIFAR-10, beyond the linear case."""

from experiments.claims.finding import (
    IN_PART,
    OPEN,
    SUBSTANTIAL,
    Claim,
    Finding,
    number,
    span,
)
from experiments.store import Store
from pilu.datasets import CIFAR10_CLASSES


def same_noise_other_privacy(store: Store, study: str) -> Finding:
    table = store.read("cifar10_audits")
    found = table[table["distinguisher"] == "non-linear"]
    best = found.loc[found["epsilon_hat"].idxmax()]
    ends = found["epsilon_hat"]
    return Finding(
        "cifar10_trade_offs (tables)",
        "With the same noise for all rows the empirical epsilon differs substantially (3.05 to "
        "7.10).",
        f"{ends.min():.2f} to {ends.max():.2f}; row {best['row']} "
        f"({CIFAR10_CLASSES[int(best['label'])]}) has AUC {best['auc']:.2f}, the others "
        f"{span(found.drop(index=best.name)['auc'])}; nothing is proved at 95 %"
        if (table["mu_lower"] == 0).all()
        else f"{ends.min():.2f} to {ends.max():.2f}",
        OPEN if (table["mu_lower"] == 0).all() else bool(ends.max() >= SUBSTANTIAL * ends.min()),
        reason="The estimates differ because of one row of seven. So few runs prove none of them.",
    )


def distinguishers_agree(store: Store, study: str) -> Finding:
    table = store.read("cifar10_audits")
    wide = table.pivot_table(index="row", columns="distinguisher", values="auc")
    relation = wide["linear"].corr(wide["non-linear"], method="spearman")
    return Finding(
        "cifar10 (second table)",
        "Both distinguishers lead to similar heterogeneity.",
        f"rank correlation of their AUC {relation:.2f} over {len(wide)} rows; both rank the same "
        "row first"
        if wide["linear"].idxmax() == wide["non-linear"].idxmax()
        else f"rank correlation of their AUC {relation:.2f} over {len(wide)} rows",
        bool(relation >= 0.5),
        None,
    )


def gdp_fits(store: Store, study: str) -> Finding:
    errors = store.read("cifar10_audits")["fit_error"]
    return Finding(
        "cifar10_trade_offs",
        "A Gaussian trade-off curve fits: mean squared error between 0.001 and 0.01.",
        f"{number(errors.min())} to {number(errors.max())}, median {number(errors.median())}",
        True if errors.max() <= 0.01 else IN_PART if errors.median() <= 0.01 else False,
        None,
        "The curves of rows that cannot be detected lie above the diagonal by chance, where no "
        "Gaussian curve can be.",
    )


CIFAR10: tuple[Claim, ...] = (same_noise_other_privacy, distinguishers_agree, gdp_fits)
