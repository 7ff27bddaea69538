"""Smooth convex losses of linear scores, and learning with them."""

from pilu.losses.loss import Huber, Logistic, Loss, Softmax, Squared

__all__ = ["Huber", "Logistic", "Loss", "Softmax", "Squared"]
