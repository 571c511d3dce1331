"""Tests of the defences of gaps.py: what they do to images, and their slopes."""

import unittest

try:
    import torch

    from verify import gaps
    missing = None
except ImportError as problem:
    missing = f"not here: {problem}"


@unittest.skipIf(missing, missing)
class Gaps(unittest.TestCase):
    def slope(self, of, x):
        x = x.clone().requires_grad_()
        gaps.Slope.on = True
        try:
            y = of(x)
            value, = torch.autograd.grad(y.sum(), x)
        finally:
            gaps.Slope.on = False
        torch.testing.assert_close(y.detach(), of(x.detach()))  # the values stay exact
        return value

    def setUp(self):
        self.x = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))

    def test_bits(self):
        self.assertLessEqual(len(gaps.Bits()(self.x).unique()), 8)
        torch.testing.assert_close(self.slope(gaps.Bits(), self.x), torch.ones_like(self.x))

    def test_jpeg(self):
        smooth = torch.linspace(0.2, 0.8, 16).expand(1, 3, 16, 16)
        self.assertLess((gaps.Jpeg(quality=100)(smooth) - smooth).abs().max(), 0.01)
        self.assertGreater((gaps.Jpeg(quality=10)(self.x) - self.x).abs().mean(), 0.1)
        torch.testing.assert_close(self.slope(gaps.Jpeg(), self.x), torch.ones_like(self.x), atol=1e-3, rtol=0)

    def test_thermometer(self):
        codes = gaps.Thermometer()(self.x)
        self.assertEqual(codes.shape, (2, 48, 16, 16))
        torch.testing.assert_close(codes.reshape(2, 3, 16, 16, 16).sum(2) / 16, torch.ceil(16 * self.x) / 16)
        torch.testing.assert_close(self.slope(gaps.Thermometer(), self.x), torch.full_like(self.x, 16))

    def test_kwta(self):
        kept = gaps.KWTA(0.1)(self.x).flatten(1)
        self.assertEqual([int(n) for n in (kept > 0).sum(1)], [76, 76])
        self.assertGreaterEqual(kept[kept > 0].min(), self.x.flatten(1).topk(76).values.min())

    def test_times(self):
        twice = gaps.Times(torch.nn.Flatten(), 2)
        torch.testing.assert_close(twice(self.x), 10 * torch.softmax(2 * self.x.flatten(1), 1))

    def test_attack_by_hand(self):
        """PGD with a slope breaks a threshold that a gradient does not see, within epsilon."""
        class Threshold(torch.nn.Module):
            def forward(self, x):
                above = gaps.sloped((x > 0.5).float(), x).flatten(1).mean(1)
                return torch.stack([above, 1 - above], 1)
        images = torch.full((2, 1, 4, 4), 0.53)
        for norm, order, enough, short in (("linf", float("inf"), 0.05, 0.02), ("l2", 2, 0.14, 0.11)):
            labels = torch.tensor([0, 0])
            verdicts, adversarial = gaps.attack(Threshold(), "threshold", images, labels, gaps.Ball(norm, enough), 20, 2)
            self.assertEqual(list(verdicts), [0, 0])
            moved = torch.from_numpy(adversarial) - images
            self.assertLessEqual(moved.flatten(1).norm(order, 1).max(), enough + 1e-6)
            verdicts, _ = gaps.attack(Threshold(), "threshold", images, labels, gaps.Ball(norm, short), 20, 2)
            self.assertEqual(list(verdicts), [1, 1])


if __name__ == "__main__":
    unittest.main()
