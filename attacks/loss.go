package attacks

import (
	"math"
	"slices"

	"selfheal/internal/lists"
)

// Loss is an objective on the logits of one image. Attacks maximise it.
//
// With logits z, label y, target t and z₍₁₎ ≥ z₍₂₎ ≥ … the sorted logits:
//
//	CrossEntropy          log Σⱼ exp(zⱼ) − z_y
//	DLR                   −(z_y − z_o) / (z₍₁₎ − z₍₃₎ + 1e-12)
//	TargetedDLR           −(z_y − z_t) / (z₍₁₎ − (z₍₃₎ + z₍₄₎)/2 + 1e-12)
//	TargetedCrossEntropy  z_t − log Σⱼ exp(zⱼ)
//	LogitDifference       z_t − z_y
//	Margin                max_{j≠y} zⱼ − z_y
//	ProbabilityMargin     max_{j≠y} pⱼ − p_y, with p = softmax z
//
// A class whose logit is −∞ never wins, and is no target. If a denominator needs the logit of such a class, fewer
// classes are left than the loss is defined for, and the denominator is 1, as in [Setup.Make] for networks with few
// classes.
//
// In DLR z_o is z₍₂₎ if y ranks first, else z₍₁₎. A targeted loss only steers: an image is broken by any wrong class.
// (Croce & Hein 2020, "Reliable evaluation…", sections 4 and 5; Carlini & Wagner 2017 for Margin;
// Xie et al. 2024, "Towards million-scale…", for ProbabilityMargin.)
//
// Ties: a stable ascending sort, read from its end, gives the ranks, so that among equal logits the higher class ranks
// first (torch.sort on a CPU); the maximum of Margin is the lowest class among equals (torch.max). A tie moves the
// gradient from one class to another, never the value.
type Loss int

// The losses; the zero value is CrossEntropy.
const (
	CrossEntropy Loss = iota
	DLR
	TargetedDLR
	TargetedCrossEntropy
	LogitDifference
	Margin
	ProbabilityMargin
)

// dlrGuard keeps the denominator of the DLR losses from being 0.
const dlrGuard = 1e-12

var losses = [...]struct {
	name     string
	targeted bool
	classes  int // the fewest classes that it is defined for
}{
	CrossEntropy: {"ce", false, 2}, DLR: {"dlr", false, 3}, TargetedDLR: {"dlr-targeted", true, 4},
	TargetedCrossEntropy: {"ce-targeted", true, 2}, LogitDifference: {"logit-difference", true, 2},
	Margin: {"margin", false, 2}, ProbabilityMargin: {"probability-margin", false, 2},
}

// String returns the loss's name, such as ce or dlr-targeted.
func (l Loss) String() string { return losses[l].name }

// Losses lists all losses.
func Losses() (all []Loss) {
	for l := range losses {
		all = append(all, Loss(l))
	}
	return all
}

func lossNamed(name string) Loss {
	return Losses()[slices.Index(lists.Map(Losses(), Loss.String), name)]
}

// Targeted reports whether the loss reads a target class.
func (l Loss) Targeted() bool { return losses[l].targeted }

// Signed reports whether the loss is 0 where the class changes from the label (to the target), and positive beyond.
func (l Loss) Signed() bool { return l != CrossEntropy && l != TargetedCrossEntropy }

// MinClasses returns the fewest classes that the loss is defined for.
func (l Loss) MinClasses() int { return losses[l].classes }

// fitted returns l, or its numerator if there are too few classes for l.
func (l Loss) fitted(classes int) Loss {
	switch {
	case classes >= l.MinClasses() || classes < 2: // with one class no loss is defined
		return l
	case l == DLR:
		return Margin
	default:
		return LogitDifference
	}
}

// Value returns the loss at logits. label and, for a targeted loss, target lie in [0, len(logits)); len(logits) is at
// least [Loss.MinClasses].
func (l Loss) Value(logits []float32, label, target int) float64 {
	zy := float64(logits[label])
	switch l {
	case CrossEntropy:
		return logSumExp(logits) - zy
	case TargetedCrossEntropy:
		return float64(logits[target]) - logSumExp(logits)
	case LogitDifference:
		return float64(logits[target]) - zy
	case Margin:
		return float64(logits[runnerUp(logits, label)]) - zy
	case ProbabilityMargin:
		return Confidence(logits, runnerUp(logits, label)) - Confidence(logits, label)
	}
	r := topFour(logits)
	d, _ := r.spread(l, logits)
	return gap(logits, label, r.rival(l, label, target)) / d
}

// Cotangent writes ∂loss/∂logits into out, which has the length of logits. It differentiates the denominators of the
// DLR losses too.
func (l Loss) Cotangent(logits []float32, label, target int, out []float32) {
	clear(out)
	switch l {
	case CrossEntropy, TargetedCrossEntropy:
		// softmax − e_y, and e_t − softmax.
		sign, class := 1.0, label
		if l == TargetedCrossEntropy {
			sign, class = -1, target
		}
		lse := logSumExp(logits)
		for j, z := range logits {
			p := math.Exp(float64(z) - lse)
			if j == class {
				p--
			}
			out[j] = float32(sign * p)
		}
	case LogitDifference:
		out[target]++
		out[label]--
	case Margin:
		out[runnerUp(logits, label)]++
		out[label]--
	case ProbabilityMargin: // p∘(e_o − e_y − loss), where o is the runner-up
		lse, loss, rival := logSumExp(logits), l.Value(logits, label, target), runnerUp(logits, label)
		for j, z := range logits {
			g := -loss
			switch j {
			case rival:
				g++
			case label:
				g--
			}
			out[j] = float32(math.Exp(float64(z)-lse) * g)
		}
	default:
		r := topFour(logits)
		r.quotient(l, logits, label, r.rival(l, label, target), out)
	}
}

// logSumExp returns log Σ exp(zⱼ), shifted by the maximum.
func logSumExp(logits []float32) float64 {
	m := float64(slices.Max(logits))
	if math.IsInf(m, 0) {
		return m
	}
	s := 0.0
	for _, z := range logits {
		s += math.Exp(float64(z) - m)
	}
	return m + math.Log(s)
}

// ranks holds the classes of the four largest logits, largest first; −1 past the number of classes.
type ranks [4]int

// topFour ranks the four largest logits, the higher class first among equals.
func topFour(logits []float32) ranks {
	r := ranks{-1, -1, -1, -1}
	for j, z := range logits {
		at := len(r)
		for at > 0 && (r[at-1] < 0 || z >= logits[r[at-1]]) {
			at--
		}
		if at < len(r) {
			copy(r[at+1:], r[at:])
			r[at] = j
		}
	}
	return r
}

// rival returns the class that a DLR loss compares with the label.
func (r ranks) rival(l Loss, label, target int) int {
	switch {
	case l == TargetedDLR:
		return target
	case r[0] == label:
		return r[1]
	}
	return r[0]
}

// spread returns the denominator of the DLR losses, in float32 as in torch: rounding loses the guard unless the logits
// (nearly) tie. An infinite denominator is replaced by the constant 1.
func (r ranks) spread(l Loss, logits []float32) (d float64, constant bool) {
	from := logits[r[2]]
	if l == TargetedDLR {
		from = float32(0.5 * float32(from+logits[r[3]]))
	}
	apart := float32(logits[r[0]] - from)
	if apart > math.MaxFloat32 {
		return 1, true
	}
	return float64(apart + dlrGuard), false
}

// gap returns the numerator z_rival − z_label, in float32 too.
func gap(logits []float32, label, rival int) float64 {
	return float64(logits[rival] - logits[label])
}

// quotient writes the gradient of n/d, where n = z_rival − z_label and d is the spread: ∂n/d − n/d²·∂d. If the label
// ranks third, n = d and DLR is constant. With both in float32 its terms then cancel to exactly 0, as in torch, instead
// of leaving noise whose sign an attack would follow.
func (r ranks) quotient(l Loss, logits []float32, label, rival int, out []float32) {
	d, constant := r.spread(l, logits)
	n := gap(logits, label, rival)
	q := n / d / d
	if constant {
		q = 0
	}
	terms := [5]struct {
		class int
		g     float64
	}{{rival, 1 / d}, {label, -1 / d}, {r[0], -q}, {r[2], q}, {label, 0}}
	if l == TargetedDLR {
		terms[3].g, terms[4].class, terms[4].g = q/2, r[3], q/2
	}
	for _, t := range terms {
		sum := 0.0
		for _, u := range terms {
			if u.class == t.class {
				sum += u.g
			}
		}
		out[t.class] = float32(sum)
	}
}
