"""Tests of claims.py's numbers on cases whose answer is known."""

import unittest

try:
    import numpy as np
    import torch

    from paper import claims
    missing = None
except ImportError as problem:
    missing = f"not here: {problem}"


@unittest.skipIf(missing, missing)
class Claims(unittest.TestCase):
    def test_area(self):
        clean, attacked = np.array([1.0, 2, 3, 4]), np.array([2.0, 5])
        self.assertEqual(claims.area(clean, attacked), (1.5 + 4) / 8)
        at, low, high = claims.area_interval(np.arange(50.0), np.arange(50.0) + 100, np.random.default_rng(0))
        self.assertEqual((at, low, high), (1, 1, 1))

    def test_a_projection_returns_what_it_gives(self):
        rng = np.random.default_rng(1)
        states = (rng.normal(size=(200, 3)) @ rng.normal(size=(3, 12)) + 1).reshape(200, 3, 2, 2)
        project = claims.subspace(states)
        self.assertLessEqual(project.kept.shape[1], 3)
        off = states + rng.normal(size=states.shape)
        self.assertLess(claims.returning(project, off), 1e-12)
        self.assertAlmostEqual(claims.returning(lambda x: x / 2, off), 0.5)
        np.testing.assert_allclose(claims.running_loss(lambda x: 0 * x, off), 0.5 * (off ** 2).sum((1, 2, 3)))

    def test_the_norm_of_a_jacobian(self):
        matrix = torch.from_numpy(np.random.default_rng(2).normal(size=(5, 7)))
        norm = claims.jacobian_norm(lambda v: torch.tanh(v @ matrix.T), torch.zeros(1, 7, dtype=torch.float64), 200)
        self.assertAlmostEqual(norm, np.linalg.svd(matrix.numpy())[1][0], places=6)

    def test_theorem_2(self):
        # One segment: ε² ≤ 1/(2β δ_0); two: δ_0·2β_0·(‖θ_1‖ + 2β_1) + δ_1·2β_1.
        self.assertAlmostEqual(claims.largest_epsilon([3], [1], [2], 0.5), (2 * 2 * 0.5) ** -0.5)
        self.assertAlmostEqual(claims.largest_epsilon([3, 5], [1, 3], [2, 7], 0.5),
                               (0.5 * 4 * (5 + 14) + 0.5 * 9 * 14) ** -0.5)
        self.assertEqual(claims.largest_epsilon([3], [1], [0], 0.5), float("inf"))
        parts = [torch.nn.Linear(4, 4).double(), torch.nn.Softplus()]
        rng = np.random.default_rng(3)
        (norms, products, betas, epsilon), = claims.theorem_2(parts, rng.normal(size=(1, 4)), rng.normal(size=(1, 4)), 1)
        self.assertLess(betas[0], 1e-12)  # linear
        self.assertLess(0, betas[1])
        self.assertLessEqual(betas[1], 0.25 + 1e-9)  # softplus's largest second derivative
        self.assertAlmostEqual(products[1], norms[0], places=4)
        self.assertAlmostEqual(epsilon, claims.largest_epsilon(norms, products, betas, 1))


if __name__ == "__main__":
    unittest.main()
