"""Writes reference.json: what AutoAttack answers on a small tanh network.

    python3 reference.py AUTO_ATTACK_CHECKOUT

The checkout is of github.com/fra31/auto-attack at a39220048. Runs on a CPU with
torch 1.13 (2.15 gives the same to 2e-7). The network works in float64 and answers in float32, as the Go
classifiers of oracles_test.go do.
"""
import json
import math
import os
import sys

sys.path.insert(0, sys.argv[1])
import torch
import torch.nn.functional as F
import autoattack.autopgd_base as apgd
import autoattack.fab_projections as projections
from autoattack.fab_pt import FABAttack_PT
from autoattack.square import SquareAttack

torch.set_num_threads(1)
gen = torch.Generator().manual_seed(11)
C, H, W, HIDDEN, CLASSES = 2, 6, 6, 16, 6
w = torch.randn(HIDDEN, C * H * W, generator=gen) * .8
b = -w.sum(1) / 2
v = torch.randn(CLASSES, HIDDEN, generator=gen)


def model(x):
    hidden = torch.tanh(x.reshape(x.shape[0], -1).double() @ w.double().T + b.double())
    return (hidden @ v.double().T).float()


images = torch.rand(3, C, H, W, generator=gen)
images = torch.cat([images, (images[:2] > .5).float()])  # at the box's faces half of a perturbation is cut off
labels = model(images).max(1)[1]


def flat(t):
    return [float('%.9g' % e) for e in t.detach().reshape(-1).tolist()]


def length(norm, d):
    return float({'Linf': d.abs().max(), 'L2': d.norm(), 'L1': d.abs().sum()}[norm])


def noise(norm, x, eps):
    """A start point of APGD, from this script's own generator."""
    if norm == 'Linf':
        t = 2 * torch.rand(x.shape, generator=gen) - 1
        return (x + eps * t / t.abs().max()).clamp(0, 1)
    t = torch.randn(x.shape, generator=gen)
    if norm == 'L2':
        return (x + eps * t / t.norm()).clamp(0, 1)
    return (x + t + apgd.L1_projection(x, t, eps)).clamp(0, 1)


def run_apgd(norm, loss, steps, image, eps, large):
    x, y = images[image:image + 1], labels[image:image + 1]
    cls = apgd.APGDAttack_targeted if loss == 'dlr-targeted' else apgd.APGDAttack
    evals = []

    def counted(z):
        evals.append(1)
        return model(z)

    a = cls(counted, n_iter=steps, norm=norm, eps=eps, device='cpu')
    a.loss = loss
    a.init_hyperparam(x)
    target = -1
    if loss == 'dlr-targeted':
        a.y_target = model(x).sort(dim=1)[1][:, -2]
        target = int(a.y_target)
    start = noise(norm, x, 3 * eps if large else eps)
    randn, randn_like = torch.randn, torch.randn_like
    # In L1 a start handed over would change the first sparsity, so it is drawn.
    torch.randn = torch.randn_like = lambda *s, **k: start - x
    if large:
        iters = [math.ceil(.3 * steps)] * 2
        iters.append(steps - sum(iters))
        best, acc, value, adv = a.decr_eps_pgd(x, y, [3 * eps, 2 * eps, eps], iters)
    else:
        best, acc, value, adv = a.attack_single_run(x, y, x_init=None if norm == 'L1' else start)
    torch.randn, torch.randn_like = randn, randn_like
    broken = not bool(acc)
    return dict(norm=norm.lower(), loss=loss, steps=steps, image=image, eps=eps, large=large, target=target,
                start=flat(start), evals=len(evals), best=flat(best), bestloss=float(value), broken=broken,
                adv=flat(adv) if broken else None)


def run_fab(norm, targeted, image):
    x, y = images[image:image + 1], labels[image:image + 1]
    a = FABAttack_PT(model, norm=norm, n_iter=30, eps=10., device='cpu', targeted=targeted)
    a.target_class = 2
    adv = a.attack_single_run(x, y, is_targeted=targeted)
    return dict(norm=norm.lower(), targeted=targeted, image=image, steps=30, adv=flat(adv), distance=length(norm, adv - x))


def run_square(norm, image, eps):
    """Records every random number drawn."""
    x, y = images[image:image + 1], labels[image:image + 1]
    draws, asked = [], []

    def counted(z):
        asked.append(1)
        return model(z)

    a = SquareAttack(counted, norm=norm, n_queries=40, eps=eps, device='cpu', resc_schedule=False)
    a.init_hyperparam(x)
    rand = torch.rand

    def recorded(*s, **k):
        t = rand(*s, **k)
        draws.extend(flat(t))
        return t

    torch.manual_seed(image)
    torch.rand = recorded
    _, best = a.attack_single_run(x, y)
    torch.rand = rand
    return dict(norm=norm.lower(), image=image, queries=40, eps=eps, draws=draws, asked=len(asked), best=flat(best))


def run_projections(d=12):
    out = []
    for k in range(16):
        x, y = torch.rand(1, d, generator=gen), torch.randn(1, d, generator=gen) * (.3 if k % 2 else 1)
        eps = float(.2 + 2 * torch.rand(1, generator=gen))
        out.append(dict(kind='l1ball', x=flat(x), y=flat(y), eps=eps, out=flat(x + y + apgd.L1_projection(x, y, eps))))
    for k in range(16):
        t, n = torch.rand(1, d, generator=gen), torch.randn(1, d, generator=gen)
        if k % 5 == 0:
            n[0, :4] = 0
        offset = (n * torch.rand(1, d, generator=gen)).sum(1)
        if k % 4 == 0:
            offset += 8 * torch.randn(1, generator=gen)
        for name in ['linf', 'l2', 'l1']:
            moved = getattr(projections, 'projection_' + name)(t, n, offset)
            out.append(dict(kind=name, x=flat(t), y=flat(n), b=float(offset), out=flat(moved)))
    return out


def run_losses():
    out = []
    for k in range(12):
        z = (torch.randn(1, CLASSES, generator=gen) * 3).requires_grad_(True)
        y, t = torch.tensor([k % CLASSES]), torch.tensor([(k + 1 + k // 6) % CLASSES])
        a = apgd.APGDAttack_targeted(model, eps=1., device='cpu')
        a.y_target = t
        others = z.clone()
        others[0, y] = -math.inf
        for name, value in [('ce', F.cross_entropy(z, y)), ('dlr', a.dlr_loss(z, y)[0]),
                            ('dlr-targeted', a.dlr_loss_targeted(z, y)[0]), ('ce-targeted', a.ce_loss_targeted(z, y)[0]),
                            ('logit-difference', z[0, t[0]] - z[0, y[0]]), ('margin', others.max() - z[0, y[0]])]:
            grad = torch.autograd.grad(value, [z], retain_graph=True)[0]
            out.append(dict(loss=name, z=flat(z), label=int(y), target=int(t), value=float(value), grad=flat(grad)))
    return out


SQUARE = [('Linf', 0, .02), ('L2', 1, .12), ('L1', 2, .6), ('L2', 3, .3), ('L1', 3, .9), ('L2', 4, .3), ('L1', 4, .9)]
EPS = {'Linf': .05, 'L2': .5, 'L1': 2.5}
runs = [run_apgd(n, l, s, i, EPS[n] * (1 if l == 'ce' else .25), False)
        for n in EPS for l in ['ce', 'dlr', 'dlr-targeted'] for s, i in [(20, 0), (100, 0), (50, 1)]]
runs += [run_apgd('L1', l, 100, 1, EPS['L1'] * (1 if l == 'ce' else .25), True) for l in ['ce', 'dlr-targeted']]
result = dict(
    shape=[C, H, W], hidden=HIDDEN, classes=CLASSES, w=flat(w), b=flat(b), v=flat(v),
    images=[flat(x) for x in images], labels=labels.tolist(), apgd=runs,
    fab=[run_fab(n, t, i) for n in EPS for t in [True, False] for i in [0, 1]],
    square=[run_square(*case) for case in SQUARE],
    project=run_projections(), losses=run_losses())
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'reference.json'), 'w') as f:
    json.dump(result, f, separators=(',', ':'))
    f.write('\n')
