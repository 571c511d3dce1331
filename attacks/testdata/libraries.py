"""Writes libraries.json: what other libraries answer on a small tanh network.

    python3 libraries.py

Runs on a CPU with torch 2.15, foolbox 3.3.4 and eagerpy 0.30, adv-lib 0.2.8, torchattacks 3.5.1 and scipy 1.17. Where a
library departs from the paper it is patched, and the patch says why. A case has the norms of all points at which the
library asked for a gradient, in order, the last of them, and the point that the attack gives.
"""
import inspect
import json
import math
import os
import sys
import types

sys.modules['visdom'] = types.ModuleType('visdom')  # adv-lib imports it to draw charts, of which none is asked for
import adv_lib.attacks.fast_minimum_norm as fast_minimum_norm
import eagerpy
import foolbox.attacks as foolbox
import scipy.optimize
import torch
import torch.nn.functional as F
import torchattacks
from adv_lib.attacks import ddn, fab, pdpgd, sigma_zero
from foolbox import PyTorchModel, TargetedMisclassification
from foolbox.attacks.gradient_descent_base import normalize_lp_norms
from foolbox.attacks.mi_fgsm import GDMOptimizer
from foolbox.types import Bounds

torch.set_num_threads(1)
gen = torch.Generator().manual_seed(5)
C, H, W, HIDDEN, CLASSES = 2, 6, 6, 16, 6
w = (torch.randn(HIDDEN, C * H * W, generator=gen) * .8).clamp(-.4, .4)  # by which several values are needed in l0
b = -w.sum(1) / 2
v = torch.randn(CLASSES, HIDDEN, generator=gen)
asked = []


class Network(torch.nn.Module):
    """Works in float64, answers in float32, and keeps the points that it is asked about."""

    def forward(self, x):
        asked.append(x.detach().clone())
        hidden = torch.tanh(x.reshape(x.shape[0], -1).double() @ w.double().T + b.double())
        return (hidden @ v.double().T).float()


network = Network().eval()


def farther(x):
    """The image moved away from the boundary, to a margin of 3."""
    label, margin = network(x).argmax(1), 0
    while margin < 3:
        x.requires_grad_(True)
        z = network(x)[0]
        margin = z[label] - z[torch.arange(CLASSES) != label].max()
        x = (x + .02 * torch.autograd.grad(margin, x)[0].sign()).clamp(0, 1).detach()
    return x


images = torch.rand(3, C, H, W, generator=gen)
images[2] = (images[2] > .5).float()  # near the box's faces half of a perturbation is cut off
images = torch.cat([farther(x[None]) for x in images])
many = torch.rand(100, C, H, W, generator=gen)
first = network(many).topk(2).values
images = torch.cat([images, many[(first[:, 0] - first[:, 1]).argmin()][None]])  # for which one value is enough in l0
labels = network(images).argmax(1)
bounded = PyTorchModel(network, bounds=(0, 1), device='cpu')


def patched(module, name, changes):
    """A library's function with pieces of its text changed."""
    text = inspect.getsource(getattr(module, name))
    for was, becomes in changes:
        assert text.count(was) == 1, (name, was)
        text = text.replace(was, becomes)
    scope = dict(vars(module))
    exec(text, scope)
    return scope[name]


# The projections onto a ball scale no point up, and leave none of the values for a radius of 0 (Pintor et al. 2021,
# section 2).
fast_minimum_norm.l2_projection_ = patched(fast_minimum_norm, 'l2_projection_', [
    ('δ.mul_(ε.unsqueeze(1) / l2_norms).clamp_(max=1)', 'δ.mul_((ε.unsqueeze(1) / l2_norms).clamp_(max=1))')])
fast_minimum_norm.l0_projection_ = patched(fast_minimum_norm, 'l0_projection_', [
    ('ε.long().max()', 'ε.long().max().clamp(min=1)'),
    ('< thresholds] = 0', '< thresholds] = 0; δ[ε.long() < 1] = 0')])
# Before the first misclassified point fmn.go goes a share of γ_final beyond the linearised boundary.
fmn = patched(fast_minimum_norm, 'fmn', [
    ('δ_norm + distance_to_boundary)', '(δ_norm + distance_to_boundary) * (1 + γ_final))')])


class MomentumL2(foolbox.L2MomentumIterativeFastGradientMethod):
    """With gradients of l1 norm 1 in the momentum (Dong et al. 2018, Eq. 6)."""

    def normalize(self, gradients, *, x, bounds):
        return normalize_lp_norms(gradients, p=1)


class Sparse(foolbox.SparseL1DescentAttack):
    """Foolbox leaves out gradients that point out of [0,1] at its faces, which pgd.go follows like others, and its
    projection leaves points outside the ball: the nearest point of ball and box instead, found by halving."""

    def normalize(self, gradients, *, x, bounds):
        return super().normalize(gradients, x=x, bounds=Bounds(-math.inf, math.inf))

    def project(self, x, x0, epsilon):
        x, x0 = x.raw.double(), x0.raw.double()
        size, over = (x - x0).abs(), torch.maximum(x - 1, -x).clamp(min=0)
        low, high = 0., float(size.max())
        for _ in range(60):
            by = (low + high) / 2
            low, high = (by, high) if (size - over.clamp(min=by)).clamp(min=0).sum() > epsilon else (low, by)
        return eagerpy.astensor((x0 + (x - x0).sign() * (size - over.clamp(min=high)).clamp(min=0)).float())


class MomentumL1(Sparse):
    """The momentum of Dong et al. 2018, Eq. 6, and sparse steps along it."""

    def __init__(self, momentum, **settings):
        super().__init__(**settings)
        self.momentum = momentum

    def normalize(self, gradients, *, x, bounds):
        return normalize_lp_norms(gradients, p=1)

    def get_optimizer(self, x, stepsize):
        return GDMOptimizer(x, stepsize, self.momentum, lambda m: Sparse.normalize(self, m, x=x, bounds=None))


def furthest(x, y, epsilon):
    """The point of the l1 ball and [0,1] furthest along the gradient: a linear program of what is added and taken."""
    x.requires_grad_(True)
    g = torch.autograd.grad(F.cross_entropy(network(x), y), x)[0].double().flatten()
    x = x.detach().flatten().double()
    both = torch.cat([-g, g])
    got = scipy.optimize.linprog(both.tolist(), A_ub=[[1.] * len(both)], b_ub=[epsilon],
                                 bounds=[(0, t) for t in torch.cat([1 - x, x]).tolist()], method='highs')
    added, taken = torch.tensor(got.x).chunk(2)
    return (x + added - taken).float().view(1, C, H, W)


ORDER = {'linf': float('inf'), 'l2': 2, 'l1': 1, 'l0': 0}


def length(norm, point, image):
    return float('%.6g' % torch.linalg.vector_norm((point.double() - image.double()).flatten(), ord=ORDER[norm]))


def flat(t):
    return [float('%.8g' % e) for e in t.detach().flatten().tolist()]


def case(attack, norm, image, run, epsilon=1000., targeted=False, **parameters):
    """run gives the library's point, and is called with the class after the label if the attack aims at that; parameters
    are the Go program's."""
    x, y = images[image:image + 1].clone(), (labels[image:image + 1] + targeted) % CLASSES
    asked.clear()
    point = run(x, y).detach()
    points = list(asked)
    if attack == 'deepfool':  # Foolbox asks about a point for each class
        points = [p for k, p in enumerate(points) if k == 0 or not torch.equal(p, points[k - 1])]
    if attack == 'fab':  # adv-lib asks for a gradient and checks its step at one point, or at two
        points = [point]
    x = images[image:image + 1]
    return dict(attack=attack, norm=norm, image=image, epsilon=epsilon, parameters=parameters, targeted=targeted,
                norms=[length(norm, p, x) for p in points], last=flat(points[-1]), point=flat(point))


def minimal():
    """Attacks that look for the smallest norm."""
    for image, steps, gamma, first in [(0, 60, .05, 1.), (1, 40, .12, .3), (2, 40, .05, 2.)]:
        yield case('ddn', 'l2', image,
                   lambda x, y: ddn(network, x, y, steps=steps, γ=gamma, init_norm=first, levels=None),
                   steps=steps, gamma=gamma, init_norm=first)
    for norm, order in ORDER.items():
        cases = [(0, 60, 1., .05, .001), (1, 40, .5, .2, .02), (2, 40, 1., .05, .01)]
        if norm == 'l0':  # where a radius shrinks and grows by several values, or to none
            cases += [(1, 40, .5, .7, .3), (3, 20, .5, .1, .01)]
        for image, steps, step, gamma, last in cases:
            yield case('fmn', norm, image,
                       lambda x, y: fmn(network, x, y, order, steps=steps, α_init=step, γ_init=gamma, γ_final=last),
                       steps=steps, step_size=step, gamma=gamma, gamma_final=last)
    names = dict(steps='num_steps', primal_rate='primal_lr', primal_decrease='primal_lr_decrease',
                 dual_ratio='dual_ratio_init', dual_rate='dual_lr', dual_decrease='dual_lr_decrease',
                 dual_average='dual_ema', proximal_steps='proximal_steps')
    usual = [.1, .01, .01, .1, .1, .9, 5]
    for norm in ['linf', 'l2', 'l1']:
        for image, values in [(0, [60, *usual]), (1, [40, .03, .1, .1, .4, .3, .7, 3]), (2, [40, *usual])]:
            settings = dict(zip(names.values(), values))
            yield case('pdpgd', norm, image, lambda x, y: pdpgd(network, x, y, ORDER[norm], **settings),
                       **dict(zip(names, values)))
    for image, steps, rate, sigma, threshold, factor in [  # at a sharp σ the library's float32 and float64 part
            (0, 60, .5, .02, .2, .01), (1, 40, .3, .01, .1, .05), (2, 40, .3, .01, .2, .02),
            (3, 40, .2, .02, .9, .2)]:
        yield case('sigma-zero', 'l0', image, lambda x, y: sigma_zero(
            network, x, y, num_steps=steps, η_0=rate, σ=sigma, τ_0=threshold, τ_factor=factor),
            steps=steps, rate=rate, sigma=sigma, threshold=threshold, threshold_factor=factor)
    for norm in ['linf', 'l2', 'l1']:  # where the weight of the clean image's projection is often below its bound
        for image, bound, beta, eta in [(0, .9, .9, 1.05), (1, .5, .7, 1.2)]:
            yield case('fab', norm, image,
                       lambda x, y: fab(network, x, y, ORDER[norm], n_iter=20, α_max=bound, β=beta, η=eta),
                       steps=20, alpha_max=bound, beta=beta, eta=eta)
    for norm, attack in [('linf', foolbox.LinfDeepFoolAttack), ('l2', foolbox.L2DeepFoolAttack)]:
        for image, overshoot in [(0, .02), (1, .1), (2, .02)]:
            yield case('deepfool', norm, image, lambda x, y: attack(overshoot=overshoot).run(bounded, x, y),
                       overshoot=overshoot)


def within():
    """Attacks within epsilon, from the clean image, in steps of their usual length."""
    for image, epsilon, steps, decay in [(0, .04, 10, 1.), (1, .03, 15, .5), (2, .04, 10, 1.)]:
        yield case('fgsm', 'linf', image, torchattacks.FGSM(network, eps=epsilon), epsilon)
        yield case('mi-fgsm', 'linf', image, torchattacks.MIFGSM(
            network, eps=epsilon, alpha=epsilon / steps, steps=steps, decay=decay), epsilon, steps=steps, decay=decay)
        yield case('pgd', 'linf', image, torchattacks.PGD(
            network, eps=epsilon, alpha=epsilon / 4, steps=steps, random_start=False), epsilon, steps=steps)
        epsilon *= 6
        yield case('fgsm', 'l2', image, foolboxed(foolbox.L2FastGradientAttack(), epsilon), epsilon)
        yield case('mi-fgsm', 'l2', image, foolboxed(MomentumL2(
            momentum=decay, abs_stepsize=epsilon / steps, steps=steps), epsilon), epsilon, steps=steps, decay=decay)
        yield case('pgd', 'l2', image, torchattacks.PGDL2(
            network, eps=epsilon, alpha=2.5 * epsilon / steps, steps=steps, random_start=False), epsilon, steps=steps)
        epsilon *= 4
        yield case('fgsm', 'l1', image, lambda x, y: furthest(x, y, epsilon), epsilon)
        yield case('mi-fgsm', 'l1', image, foolboxed(MomentumL1(
            decay, abs_stepsize=epsilon / steps, steps=steps), epsilon), epsilon, steps=steps, decay=decay)
        yield case('pgd', 'l1', image, foolboxed(Sparse(
            abs_stepsize=2.5 * epsilon / steps, steps=steps), epsilon), epsilon, steps=steps)


def foolboxed(attack, epsilon, criterion=lambda y: y):
    return lambda x, y: attack.run(bounded, x, criterion(y), epsilon=epsilon)


def aimed():
    """Attacks that aim at the class after the label."""
    for image in 0, 1, 2:
        yield case('ddn', 'l2', image, lambda x, y: ddn(network, x, y, targeted=True, steps=40, levels=None),
                   targeted=True, steps=40, gamma=.05, init_norm=1.)
        for norm, order in ORDER.items():
            yield case('fmn', norm, image, lambda x, y: fmn(network, x, y, order, targeted=True, steps=40), targeted=True,
                       steps=40, step_size=1., gamma=.05, gamma_final=.001)
        for norm in ['linf', 'l2', 'l1']:
            yield case('pdpgd', norm, image, lambda x, y: pdpgd(network, x, y, ORDER[norm], targeted=True, num_steps=40),
                       targeted=True, steps=40)
        epsilon = .05
        for attack, method, parameters in [
                ('fgsm', torchattacks.FGSM(network, eps=epsilon), {}),
                ('mi-fgsm', torchattacks.MIFGSM(network, eps=epsilon, alpha=epsilon / 10, steps=10), dict(steps=10)),
                ('pgd', torchattacks.PGD(network, eps=epsilon, alpha=epsilon / 4, steps=10, random_start=False),
                 dict(steps=10))]:
            method.set_mode_targeted_by_label(quiet=True)
            yield case(attack, 'linf', image, method, epsilon, targeted=True, **parameters)
        epsilon *= 6
        method = torchattacks.PGDL2(network, eps=epsilon, alpha=2.5 * epsilon / 10, steps=10, random_start=False)
        method.set_mode_targeted_by_label(quiet=True)
        yield case('pgd', 'l2', image, method, epsilon, targeted=True, steps=10)
        epsilon *= 4
        yield case('pgd', 'l1', image, foolboxed(Sparse(abs_stepsize=2.5 * epsilon / 10, steps=10), epsilon,
                                                 TargetedMisclassification), epsilon, targeted=True, steps=10)


cases = [*minimal(), *within(), *aimed()]
result = dict(shape=[C, H, W], hidden=HIDDEN, classes=CLASSES, w=flat(w), b=flat(b), v=flat(v),
              images=[flat(x) for x in images], labels=labels.tolist(), cases=cases)
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'libraries.json'), 'w') as f:
    json.dump(result, f, separators=(',', ':'))
    f.write('\n')
