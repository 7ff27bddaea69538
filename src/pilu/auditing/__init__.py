"""Audits: empirical lower bounds to compare with a certificate."""

from pilu.auditing.audit import Audit, audit
from pilu.auditing.bounds import most_provable
from pilu.auditing.distinguishers import MLP, Distinguisher, Known, Logistic
from pilu.auditing.runs import load_run, run_all
from pilu.auditing.two_runs import RidgeRuns, SmoothRuns

__all__ = [
    "MLP",
    "Audit",
    "Distinguisher",
    "Known",
    "Logistic",
    "RidgeRuns",
    "SmoothRuns",
    "audit",
    "load_run",
    "most_provable",
    "run_all",
]
