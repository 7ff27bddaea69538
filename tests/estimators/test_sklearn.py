"""scikit-learn's own checks; none is expected to fail."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from pilu import LangevinRidge, LangevinRidgeClassifier


@parametrize_with_checks(
    [
        LangevinRidge(),
        LangevinRidge(solver="gradient", n_steps=200),
        LangevinRidgeClassifier(),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
