"""Smooth convex losses of linear scores, and the problem of learning with one of them."""

from pilu.losses.loss import Huber, Logistic, Loss, Softmax, Squared

__all__ = ["Huber", "Logistic", "Loss", "Softmax", "Squared"]
