"""Cases of gradients.py: products of matrices."""

import numpy as np
import torch
import torch.nn.functional as F

from goldens.cases import case


def gemm(shape, wshape, attrs, cshape=None):
    def build(m, x):
        wn, w = m.weight(*wshape)
        inputs = [x, wn]
        c = torch.zeros(1).double()
        if cshape is not None:
            cn, c = m.weight(*cshape, scale=1.0)
            inputs.append(cn)
        a, b = np.float32(attrs.get("alpha", 1)).item(), np.float32(attrs.get("beta", 1)).item()
        return (m.op("Gemm", *inputs, **attrs),
                lambda t: a * (t @ (w.T if attrs.get("transB") else w)) + b * c)
    return build


case("gemm", (4,), gemm((4,), (4, 3), {}))
case("gemm_bias", (4,), gemm((4,), (4, 3), {}, (3,)), batch=3)
case("gemm_transb", (4,), gemm((4,), (3, 4), {"transB": 1}, (3,)))
case("gemm_alpha_beta", (4,), gemm((4,), (3, 4), {"transB": 1, "alpha": 0.5, "beta": 2.0}, (1, 3)))


def gemm_trans_a(transb):
    def build(m, x):  # the batch is a column: x turned, and turned back by transA
        wn, w = m.weight(*((3, 4) if transb else (4, 3)))
        t = m.op("Transpose", x, perm=[1, 0])
        return m.op("Gemm", t, wn, transA=1, transB=int(transb), alpha=1.5), lambda v: 1.5 * v @ (w.T if transb else w)
    return build


def gemm_right(transa, transb):
    def build(m, x):  # the data is the right factor
        wn, w = m.weight(*((4, 3) if transa else (3, 4)))
        r = x if transb else m.op("Transpose", x, perm=[1, 0])
        y = m.op("Gemm", wn, r, transA=int(transa), transB=int(transb), alpha=0.75)
        return m.op("Transpose", y, perm=[1, 0]), lambda v: 0.75 * v @ (w if transa else w.T)
    return build


case("gemm_transa", (4,), gemm_trans_a(False))
case("gemm_transa_transb", (4,), gemm_trans_a(True))
for _a in (False, True):
    for _b in (False, True):
        case(f"gemm_right_{int(_a)}{int(_b)}", (4,), gemm_right(_a, _b))


def gemm_c(m, x):  # the addend is data too
    wn, w = m.weight(3, 3)
    return m.op("Gemm", x, wn, m.op("Tanh", x), beta=-0.5), lambda t: t @ w - 0.5 * torch.tanh(t)


case("gemm_data_addend", (3,), gemm_c)


def matmul_const(*wshape, left=False):
    def build(m, x):
        wn, w = m.weight(*wshape)
        return (m.op("MatMul", wn, x), lambda t: w @ t) if left else (m.op("MatMul", x, wn), lambda t: t @ w)
    return build


def attention(m, x):  # [N,T,D]·[N,D,T] and its softmax times x: both factors from the data
    s = m.op("MatMul", x, m.op("Transpose", x, perm=[0, 2, 1]))
    return m.op("MatMul", m.op("Softmax", s, axis=-1), x), lambda t: F.softmax(t @ t.transpose(1, 2), -1) @ t


case("matmul_const_right", (4,), matmul_const(4, 3))
case("matmul_const_right_batched", (3, 4), matmul_const(4, 2))
case("matmul_const_left_batched", (3, 4), matmul_const(2, 3, left=True))
case("matmul_heads", (2, 3, 4), matmul_const(2, 4, 3))
case("matmul_data_data", (3, 4), lambda m, x: (m.op("MatMul", x, m.op("Transpose", x, perm=[0, 2, 1])), lambda t: t @ t.transpose(1, 2)))
case("matmul_attention", (3, 4), attention)


# ---------------------------------------------------------------- contractions

def einsum_const(equation, *wshape, left=False):
    def build(m, x):
        wn, w = m.weight(*wshape)
        inputs = [wn, x] if left else [x, wn]
        return m.op("Einsum", *inputs, equation=equation), lambda t: torch.einsum(equation, *((w, t) if left else (t, w)))
    return build


def einsum_data(equation):  # both operands from the data
    return lambda m, x: (m.op("Einsum", x, m.op("Tanh", x), equation=equation), lambda t: torch.einsum(equation, t, torch.tanh(t)))


def einsum_attention(m, x):  # [N,heads,T,D]: scores and the weighted sum
    s = m.op("Einsum", x, x, equation="bhid,bhjd->bhij")
    y = m.op("Einsum", m.op("Softmax", s, axis=-1), m.op("Tanh", x), equation="bhij,bhjd->bihd")
    return y, lambda t: torch.einsum("bhij,bhjd->bihd", F.softmax(torch.einsum("bhid,bhjd->bhij", t, t), -1), torch.tanh(t))


def einsum_three(m, x):
    wn, w = m.weight(4, 3)
    equation = "bti,ij,bsi->bjts"
    return m.op("Einsum", x, wn, m.op("Tanh", x), equation=equation), lambda t: torch.einsum(equation, t, w, torch.tanh(t))


case("einsum_linear", (3, 4), einsum_const("bti,io->bto", 4, 5))
case("einsum_linear_implicit", (3, 4), einsum_const("bti,iz", 4, 5))
case("einsum_ellipsis", (2, 3, 4), einsum_const("...i,io->...o", 4, 3))
case("einsum_left", (3, 4), einsum_const("ot, b t i -> b o i", 2, 3, left=True))
case("einsum_channels", (3, 2, 2), einsum_const("nchw,oc->nohw", 4, 3))
case("einsum_scale", (3, 4), einsum_const("bti,i->bti", 4))
case("einsum_outer", (3,), einsum_const("bt,o->bto", 4))
case("einsum_summed_out", (3, 4), einsum_const("bti,o->bo", 2))
case("einsum_pairs", (3, 4), einsum_data("bti,bsi->bts"))
case("einsum_inner", (3, 5), einsum_data("bti,bti->b"))
case("einsum_one", (3, 5), lambda m, x: (m.op("Einsum", x, equation="bij->bj"), lambda t: t.sum(1)))
case("einsum_turned", (3, 5), lambda m, x: (m.op("Einsum", m.op("Tanh", x), equation="bij->bji"), lambda t: torch.tanh(t).transpose(1, 2)))
case("einsum_attention", (2, 3, 4), einsum_attention)
case("einsum_three", (3, 4), einsum_three)
