"""Noise from the operating system is standard normal, independent, and different after a fork."""

import os

import numpy as np
from scipy import stats

from pilu.chains.chain import SeededGaussian, SystemGaussian


def test_system_noise_is_standard_normal():
    draws = SystemGaussian().normal((200_000,))
    assert stats.kstest(draws, "norm").pvalue > 1e-6
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.015
    assert abs(stats.kurtosis(draws)) < 0.1
    assert (draws > 4).any() or (draws < -4).any()  # 12 expected


def test_extreme_bits_map_to_finite_tails(monkeypatch):
    for pattern in (b"\x00", b"\xff"):
        monkeypatch.setattr(os, "urandom", lambda n, p=pattern: p * n)
        draws = SystemGaussian().normal((3,))
        assert np.isfinite(draws).all()
    monkeypatch.setattr(os, "urandom", lambda n: b"\x00" * n)
    assert abs(SystemGaussian().normal((1,))[0]) > 9


def test_forked_processes_draw_different_noise():
    source = SystemGaussian()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, source.normal((8,)).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(read, 64))
    assert not np.isin(source.normal((8,)), theirs).any()


def test_seeded_streams_repeat_and_differ():
    one, two = SeededGaussian(7, 0).normal((4,)), SeededGaussian(7, 0).normal((4,))
    np.testing.assert_array_equal(one, two)
    assert not np.isin(SeededGaussian(7, 1).normal((4,)), one).any()
    assert not SeededGaussian(7, 0).private
    assert SystemGaussian().private
