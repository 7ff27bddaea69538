"""A certified deletion from the digits classifier, and an audit beside it."""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from sklearn.datasets import load_digits

import pilu
from pilu.auditing import RidgeRuns, audit
from pilu.plotting import plot_audit

ROW = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("audit-output"))
    parser.add_argument("--runs", type=int, default=2000)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    X, y = load_digits(return_X_y=True)
    model = pilu.LangevinRidgeClassifier(alpha=1.0).fit(X / 16, y)
    noise = model.quote([ROW], epsilon=1.0).noise[0]
    runs = RidgeRuns(model, ROW, noise=noise, n_unlearn_steps=80)
    certificate = model.unlearn(ROW, epsilon=1.0)

    found = {}
    for name, distinguisher in (("best test", runs.likelihood_ratio), ("logistic", "logistic")):
        found[name] = audit(
            runs.unlearned,
            runs.retrained,
            delta=certificate.delta,
            seed=0,
            n_runs=options.runs,
            distinguisher=distinguisher,
        )
        a = found[name]
        print(
            f"{name:>10}: AUC {a.auc:.3f}, mu-hat {a.mu_hat:.2f}, epsilon-hat {a.epsilon_hat:.2f}; "
            f"proved mu >= {a.mu_lower:.2f}, epsilon >= {a.epsilon_lower:.2f} "
            f"(certified: {certificate.epsilon:.2f}; at most provable: {a.epsilon_provable:.2f})"
        )
    figure = plot_audit(
        found["best test"], certificate=certificate, exact=runs.pair, title=f"Digits, row {ROW}"
    )
    figure.savefig(options.out / "audit.png", dpi=150)
    print(f"wrote {options.out / 'audit.png'}")


if __name__ == "__main__":
    main()
