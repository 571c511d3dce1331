package attacks

import (
	"math"
	"slices"
	"testing"

	"selfheal/internal/must"
)

// trace records the questions that an attack asks a classifier about one image, in order. A test takes them off its
// front and computes what each should be.
type trace struct {
	t      *testing.T
	o      *classifier
	im     Image
	points [][]float32
	made   []pass
	asked  int
}

// traced runs an attack, alone, on an image.
func traced(t *testing.T, s Setup, epsilon float64, o *classifier, im Image) *trace {
	t.Helper()
	watched := &spy{Oracle: o}
	perturb(t, recipe(t, s, epsilon, o.classes).Components[0], watched, im, 3)
	return &trace{t: t, o: o, im: im, points: watched.points(false), made: watched.made}
}

// more reports whether there are questions left.
func (r *trace) more() bool { return r.asked < len(r.points) }

// next takes a question; wrong is its answer.
func (r *trace) next() (x []float32, wrong bool) {
	x = r.points[r.asked]
	r.asked++
	return x, r.o.misclassified(x, r.im.Label)
}

// expect takes a question that should be about x.
func (r *trace) expect(what string, x []float32) (wrong bool) {
	r.t.Helper()
	got, wrong := r.next()
	if off := furthest(got, x); !(off <= 2e-6) {
		r.t.Fatalf("image %d, question %d of %d, %s: off by %.2g", r.im.ID, r.asked, len(r.points), what, off)
	}
	return wrong
}

// last returns the point of the last question.
func (r *trace) last() []float32 { return r.points[r.asked-1] }

// halve expects the questions of a bisection between 0, where the label is right, and high, and returns its upper end
// and the point there.
func (r *trace) halve(what string, high, within float64, point func(at float64) []float32) (float64, []float32) {
	r.t.Helper()
	low, x := 0.0, point(high)
	for high-low > within && r.more() {
		middle := (low + high) / 2
		if float32(middle) == float32(low) || float32(middle) == float32(high) {
			break
		}
		if r.expect(what, point(middle)) {
			high, x = middle, r.last()
		} else {
			low = middle
		}
	}
	return high, x
}

func clamped(v float64) float32 { return float32(min(max(v, 0), 1)) }

// mapped applies value to each value of an image.
func mapped(im Image, value func(i int, clean float64) float64) []float32 {
	x := make([]float32, len(im.Pixels))
	for i, v := range im.Pixels {
		x[i] = clamped(value(i, float64(v)))
	}
	return x
}

// HopSkipJump asks what Chen, Jordan & Wainwright 2020 say: a random start, the boundary on the way to the clean image
// (algorithm 1), B₀·√t points at the distance of section III-B around it, the direction of Eq. 16, steps of ‖x − x*‖/√t
// that are halved until they succeed, and the boundary again.
func TestHopSkipJumpAsks(t *testing.T) {
	t.Parallel()
	o := randomMLP(shape, 20, 5, 9)
	d, tries, all := float64(shape.Size()), 0, 0
	for _, n := range []Norm{Linf, L2} {
		for _, im := range imagesNear(o, 3, 0.5, 10) {
			first := []int{30, 2, 1}[im.ID] // few points tell a direction badly
			set := Setup{Kind: "hop-skip-jump", Norm: n, Parameters: given{"queries": 1200, "initial_points": first}}
			r := traced(t, set, 1e-9, o, im)
			if len(r.points) != 1200 {
				t.Fatalf("%d questions, want 1200", len(r.points))
			}
			x, wrong := r.next()
			for !wrong {
				x, wrong = r.next()
			}
			blend := func(share float64) []float32 {
				return mapped(im, func(i int, v float64) float64 { return (1-share)*v + share*float64(x[i]) })
			}
			cut := func(radius float64) []float32 {
				return mapped(im, func(i int, v float64) float64 { return min(max(float64(x[i]), v-radius), v+radius) })
			}
			boundary := func() {
				if n == L2 {
					_, x = r.halve("boundary", 1, math.Pow(d, -1.5), blend)
					return
				}
				far := Linf.Distance(x, im.Pixels)
				_, x = r.halve("boundary", far, far/(d*d), cut)
			}
			if _, x = r.halve("start", 1, 1e-3, blend); n == Linf {
				boundary()
			}
			steps := 0
			for step := 1; r.more(); step++ {
				away := n.Distance(x, im.Pixels)
				reach := map[bool]float64{true: 0.1, false: away / d}[step == 1]
				way, answers, longest := make([]float64, len(x)), 0.0, 0.0
				count := int(float64(first) * math.Sqrt(float64(step)))
				if len(r.points)-r.asked <= count {
					break
				}
				var moves [][]float64
				var signs []float64
				for range count {
					p, wrong := r.next()
					sign := map[bool]float64{true: 1, false: -1}[wrong]
					move := make([]float64, len(x))
					for i := range p {
						move[i] = float64(p[i]) - float64(x[i])
					}
					moves, signs, answers = append(moves, move), append(signs, sign), answers+sign
					longest = max(longest, L2.Distance(p, x))
				}
				if longest > reach*(1+1e-3) || longest < 0.5*reach {
					t.Fatalf("%v, image %d, step %d: points at %v, want %v", n, im.ID, step, longest, reach)
				}
				mean := answers / float64(count)
				if math.Abs(mean) == 1 { // all alike
					mean = 0
				}
				length := 0.0
				for i := range way {
					for k, move := range moves {
						way[i] += (signs[k] - mean) * move[i]
					}
					length += way[i] * way[i]
				}
				for i, v := range way {
					if way[i] = v / math.Sqrt(length); n == Linf && v != 0 {
						way[i] = math.Copysign(1, v)
					}
				}
				at := x
				for long := away / math.Sqrt(float64(step)); r.more(); long /= 2 {
					tries++
					next := mapped(im, func(i int, _ float64) float64 { return float64(at[i]) + long*way[i] })
					if r.expect("step", next) {
						x = r.last()
						steps++
						break
					}
				}
				if r.more() {
					boundary()
				}
			}
			if all += steps; steps < 4 {
				t.Errorf("%v, image %d: %d steps", n, im.ID, steps)
			}
		}
	}
	if t.Logf("%d steps by %d tries", all, tries); tries < all+10 {
		t.Errorf("%d steps by %d tries: few were halved", all, tries)
	}
}

// RayS asks what Chen & Gu 2020, algorithm 3, say: block after block is turned round, from the whole image to single
// values, and a ray is followed to the boundary where it is misclassified at the least radius so far.
func TestRaySAsks(t *testing.T) {
	t.Parallel()
	o := randomMLP(shape, 20, 5, 9)
	for _, im := range imagesNear(o, 3, 0.5, 10) {
		r := traced(t, Setup{Kind: "rays", Norm: Linf, Parameters: given{"queries": 700}}, 1e-9, o, im)
		if len(r.points) != 700 {
			t.Fatalf("%d questions, want 700", len(r.points))
		}
		n, best, better := len(im.Pixels), 1.0, 0
		signs := slices.Repeat([]float64{1}, n)
		ray := func(radius float64) []float32 {
			return mapped(im, func(i int, v float64) float64 { return v + radius*signs[i] })
		}
		turned := func(from, to int) {
			for i := from; i < to; i++ {
				signs[i] = -signs[i]
			}
		}
		found := false
		for size := n; r.more(); size = int(math.Ceil(float64(size) / 2)) {
			for from := 0; from < n && r.more(); from += size {
				to := min(from+size, n)
				turned(from, to)
				wrong := r.expect("the least radius", ray(best))
				at := best
				if wrong {
					at, _ = r.halve("ray", best, 1e-3/math.Sqrt(float64(n)), ray)
				}
				if wrong && (at < best || !found) {
					best, found, better = at, true, better+1
				} else {
					turned(from, to)
				}
			}
		}
		if better < 5 {
			t.Errorf("image %d: %d better rays", im.ID, better)
		}
	}
}

// A patch begins where the gradient is largest in sum, as trying all places finds, and goes on as Rao, Stutz & Schiele
// 2020, section 3, say: to a place nearby where the loss is higher, or by a step along the gradient's sign.
func TestPatchAsks(t *testing.T) {
	t.Parallel()
	s := Shape{C: 2, H: 9, W: 7}
	o := randomMLP(s, 20, 5, 9)
	moved, stepped, still := 0, 0, 0
	for _, im := range imagesNear(o, 6, 0.5, 10) {
		const side, stride, step = 2, 3, 0.07
		set := Setup{Kind: PatchKind,
			Parameters: given{SideName: side, "steps": 40, "stride": stride, "step_size": step}}
		r := traced(t, set, 1, o, im)
		gradient := func(x []float32) (loss float64, g []float32) {
			var e Evaluation
			must.Do(t, o.Gradient(t.Context(), x, CrossEntropy, im.Label, -1, &e))
			return float64(e.Loss), e.Gradient
		}
		r.expect("clean image", im.Pixels)
		_, clean := gradient(im.Pixels)
		inside := func(row, col, at int) bool {
			i, j := at/s.W%s.H, at%s.W
			return i >= row && i < row+side && j >= col && j < col+side
		}
		row, col, most := 0, 0, 0.0
		for i := 0; i+side <= s.H; i++ {
			for j := 0; j+side <= s.W; j++ {
				sum := 0.0
				for at, g := range clean {
					if inside(i, j, at) {
						sum += math.Abs(float64(g))
					}
				}
				if sum > most {
					row, col, most = i, j, sum
				}
			}
		}
		cur, _ := r.next()
		for at, v := range cur {
			if same := v == im.Pixels[at]; same == inside(row, col, at) || v < 0 || v > 1 {
				t.Fatalf("image %d: value %d is %v, the clean one %v; the square begins at %d, %d", im.ID, at, v,
					im.Pixels[at], row, col)
			}
		}
		for r.more() {
			loss, g := gradient(cur)
			want := slices.Clone(cur)
			for at := range cur {
				if inside(row, col, at) {
					want[at] = clamped(float64(cur[at]) + step*math.Copysign(1, float64(g[at])))
				}
			}
			if r.made[r.asked].gradient || r.asked == len(r.points)-1 && furthest(r.points[r.asked], want) < 1e-5 {
				r.expect("a step without a try", want)
				cur, still = r.last(), still+1
				continue
			}
			tried, _ := r.next()
			at := [2]int{-1, -1}
			for _, by := range [][2]int{{stride, 0}, {-stride, 0}, {0, stride}, {0, -stride}} {
				i, j := min(max(row+by[0], 0), s.H-side), min(max(col+by[1], 0), s.W-side)
				place := slices.Clone(im.Pixels)
				for k, v := range cur {
					if inside(row, col, k) {
						place[k+(i-row)*s.W+j-col] = v
					}
				}
				if slices.Equal(place, tried) {
					at = [2]int{i, j}
				}
			}
			if at[0] < 0 {
				t.Fatalf("image %d, question %d: no place %d pixels away", im.ID, r.asked, stride)
			}
			if higher, _ := gradient(tried); higher > loss {
				row, col, want, moved = at[0], at[1], tried, moved+1
			} else {
				stepped++
			}
			if r.more() {
				r.expect("the next point", want)
			}
			cur = r.last()
		}
	}
	if moved < 3 || stepped < 50 || still < 10 {
		t.Errorf("%d squares moved, %d stepped after a try, %d without one", moved, stepped, still)
	}
}

// beyond returns by how much x favours another class beyond twice the rounding.
func (r *trace) beyond(x []float32) float64 {
	a := attempt{im: r.im, eval: Evaluation{Logits: make([]float32, r.o.classes)}}
	r.o.answer(x, a.eval.Logits)
	return a.beyond()
}

// Refining asks for the points of false position by the Illinois rule, between the clean image and the nearest point
// beyond rounding that the steps found.
func TestRefineAsks(t *testing.T) {
	t.Parallel()
	o := randomMLP(shape, 20, 5, 9)
	type end struct{ at, margin float64 }
	halved, refined := 0, 0
	for _, n := range classic {
		for _, im := range imagesNear(o, 8, 0.5, 10) {
			set := Setup{Kind: "fmn", Norm: n, Parameters: given{"steps": 18, "refine": 12}}
			r := traced(t, set, 1e-9, o, im)
			var from []float32
			for _, x := range r.points[:12] {
				r.asked++
				if r.beyond(x) > 0 && (from == nil || n.Distance(x, im.Pixels) < n.Distance(from, im.Pixels)) {
					from = x
				}
			}
			if from == nil || r.beyond(im.Pixels) >= 0 {
				continue
			}
			right, wrong, before := end{0, r.beyond(im.Pixels)}, end{1, r.beyond(from)}, 0
			for r.more() {
				share := right.margin / (right.margin - wrong.margin)
				if share < 0.02 || share > 0.98 {
					share = math.Min(math.Max(share, 0.02), 0.98)
				}
				at := right.at + share*(wrong.at-right.at)
				r.expect("refining", mapped(im, func(i int, v float64) float64 { return v + at*(float64(from[i])-v) }))
				refined++
				margin, side := r.beyond(r.last()), -1
				if margin > 0 {
					wrong, side = end{at, margin}, 1
				} else {
					right = end{at, margin}
				}
				if side == before {
					halved++
					if side > 0 {
						right.margin *= 0.5
					} else {
						wrong.margin *= 0.5
					}
				}
				before = side
			}
		}
	}
	if refined < 150 || halved < 20 {
		t.Errorf("%d points of refining, %d margins halved", refined, halved)
	}
}

// Refining halves if margins say nothing; next to an end it stays a fiftieth away.
func TestShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ right, wrong, want float64 }{
		{-1, 3, 0.25}, {-3, 1, 0.75}, {-1, 1e9, 0.02}, {-1e9, 1, 0.98}, {0, 1, 0.02}, {-1, 0, 0.98}, {1, 3, 0.5},
		{-3, -1, 0.5}, {-1, -3, 0.5}, {math.NaN(), 1, 0.5}, {0, 0, 0.5},
	} {
		if got := (end{0, c.right}).share(end{1, c.wrong}); got != c.want {
			t.Errorf("margins %v and %v: %v, want %v", c.right, c.wrong, got, c.want)
		}
	}
}

// Attacks promise the passes that they make on an image that is never broken, and no others.
func TestPassesOfAnUnbrokenImage(t *testing.T) {
	t.Parallel()
	o := randomMLP(shape, 20, 6, 9)
	im := imagesNear(o, 1, 0.3, 10)[0]
	z := o.logits
	o.logits = func(x []float32) ([]float64, func(cotangent, out []float32)) {
		answer, pull := z(x)
		answer[im.Label] += 1e3
		return answer, pull
	}
	for _, c := range []struct {
		kind              string
		norm              Norm
		parameters        given
		forward, backward int
	}{
		{"apgd-ce", L2, given{"steps": 7, "restarts": 3, "eot_iter": 2}, 48, 48},
		{"apgd-ce", L1, given{"steps": 20, "restarts": 2, "large_radii": true}, 46, 46},
		{"apgd-t", Linf, given{"steps": 7, "targets": 3, "restarts": 2}, 49, 48},
		{"apgd-t", Linf, given{"steps": 3, "targets": 9}, 21, 20}, // of 5 rivals
		{"square", L2, given{"queries": 9, "restarts": 2}, 20, 0},
		{"pgd", L2, given{"steps": 5, "restarts": 3}, 18, 15},
		{"fgsm", Linf, nil, 2, 1},
		{"mi-fgsm", Linf, given{"steps": 6}, 7, 6},
		{"deepfool", L2, given{"steps": 4}, 21, 20},
		{"ddn", L2, given{"steps": 9}, 9, 9},
		{"fmn", L1, given{"steps": 9}, 9, 9},
		{"pdpgd", Linf, given{"steps": 9}, 9, 9},
		{"sigma-zero", L0, given{"steps": 9}, 9, 9},
		{"rays", Linf, given{"queries": 30}, 30, 0},
		{"hop-skip-jump", L2, given{"queries": 30}, 30, 0},
		{SpatialKind, Linf, given{"translation": 0.}, 31, 0},
		{SpatialKind, Linf, given{"rotation": 0.}, 49, 0},
		{SpatialKind, Linf, given{"queries": 11}, 11, 0},
	} {
		epsilon := 0.1
		if c.norm == L0 || Free(c.kind) {
			epsilon = 1
		}
		a := recipe(t, Setup{Kind: c.kind, Norm: c.norm, Parameters: c.parameters}, epsilon, o.classes).Components[0]
		f, b := a.Passes(o.classes)
		res := trial{a, c.norm, epsilon, false}.perturb(t, o, im, 1)
		if f != c.forward || b != c.backward || res.Forward != f || res.Backward != b || res.Adversarial != nil {
			t.Errorf("%s %v %v: made %d and %d passes, promised %d and %d, want %d and %d", c.kind, c.norm,
				c.parameters, res.Forward, res.Backward, f, b, c.forward, c.backward)
		}
	}
	for kind, want := range map[string][2]int{"fab": {2 * 5 * 6, 2 * 26}, "fab-t": {1 + 6*5*2, 6 * 6}} { // may give up
		a := component(kind, L2, 0.1, given{"steps": 5, "restarts": 2}).(fab)
		a.Targets = 3
		if f, b := a.Passes(6); f != want[0] || b != want[1] {
			t.Errorf("%s promises %d and %d passes, want %v", kind, f, b, want)
		}
	}
	square := component("square", Linf, 0.1, given{"queries": 9, "restarts": 2}) // known windows are not asked about
	if f, b := square.Passes(6); f != 20 || b != 0 {
		t.Errorf("square promises %d and %d passes", f, b)
	}
	square1 := recipe(t, Setup{Kind: PatchKind, Parameters: given{"steps": 7, "restarts": 2}}, 1, 6).Components[0]
	if f, b := square1.Passes(6); f != 31 || b != 15 {
		t.Errorf("patch promises %d and %d passes", f, b)
	}
	bytes := Setup{Kind: "pgd", Norm: L2, Parameters: given{"steps": 5}, Pixels: "8bit"}
	stored := recipe(t, bytes, 0.1, 6).Components[0]
	if f, b := stored.Passes(6); f != 2*(6+22) || b != 2*(5+20) {
		t.Errorf("on 8 bits PGD promises %d and %d passes", f, b)
	}
}

// The busiest place may be in any corner.
func TestBusiest(t *testing.T) {
	t.Parallel()
	s := Shape{C: 2, H: 5, W: 4}
	for _, want := range [][2]int{{0, 0}, {0, 2}, {3, 0}, {3, 2}, {1, 1}} {
		g := make([]float32, s.Size())
		for c := range s.C {
			for i := range 2 {
				for j := range 2 {
					g[(c*s.H+want[0]+i)*s.W+want[1]+j] = float32(1 - 2*((i+j)%2))
				}
			}
		}
		if row, col := busiest(g, s, 2); row != want[0] || col != want[1] {
			t.Errorf("%d, %d is busiest, want %v", row, col, want)
		}
	}
}
