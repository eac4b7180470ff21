"""What is wrong with a network, why, and what to do about it."""

from hardzero.diagnostics.diagnose import diagnose
from hardzero.diagnostics.finding import Diagnosis, Finding
from hardzero.diagnostics.investigate import investigate

__all__ = ["Diagnosis", "Finding", "diagnose", "investigate"]
