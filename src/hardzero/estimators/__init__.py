"""The scikit-learn face: estimators store parameters, check, call the engine."""
