"""The contract of scikit-learn, by its own checks, with no failure declared."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from hardzero import RectifierClassifier

VARIANTS = [
    RectifierClassifier(random_state=0),
    RectifierClassifier((20, 10), solver="sgd", momentum=0.9, nesterov=True, l2=1e-4),
    RectifierClassifier(20, activation="tanh", learning_rate_schedule="cosine"),
    RectifierClassifier(sign_flip=True, l1_activation=1e-4, solver="sgd"),
    RectifierClassifier(early_stopping=True, validation_fraction=0.3, random_state=0),
    RectifierClassifier(engine="dense"),
]


@parametrize_with_checks(VARIANTS)
def test_scikit_learn_check(estimator, check):
    """Every check of scikit-learn passes, whatever the options."""
    check(estimator)
