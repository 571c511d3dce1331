// Package certify proves that no perturbation of a given size changes a classifier's answer. It owns the
// certificates: bounds, brackets and randomised smoothing. A run makes a [Prover] for a job, calls [Prover.Prove] for
// each classifier, and [Prover.Confront] with the images of each attack on the same job: a certified image that an
// attack broke is reported, never ignored. Results that the journal holds are not computed again.
package certify

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/stat/distuv"

	"selfheal/attacks"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/harness/stats"
	"selfheal/internal/vector"
)

// Smoothing is randomised smoothing (Cohen, Rosenfeld and Kolter 2019, "Certified Adversarial Robustness via
// Randomized Smoothing", algorithm CERTIFY). The smoothed classifier answers the class that the base classifier
// answers most often when Gaussian noise of deviation Sigma is added to the image. If that class has a probability of
// at least p, no perturbation of an ℓ2 norm below Sigma·Φ⁻¹(p) changes it (their theorem 1).
type Smoothing struct {
	Sigma float64 // of the noise, in pixel units of [0,1]
	N0, N int     // samples that choose the class, and samples that bound its probability
	Alpha float64 // probability, over the noise, that an image's certificate is wrong
	// Radii, in ℓ2 and ascending, are the radii to decide. If there are any, sampling ends as soon as all are
	// decided.
	Radii []float64
}

// Vote is the result of an image's samples.
type Vote struct {
	Class   int `json:"class"`   // the class answered most often, -1 if there was no answer
	Samples int `json:"samples"` // number of samples
	// Lower is a lower bound of the class's probability, wrong with a probability of at most Alpha.
	Lower float64 `json:"lower"`
}

// Chunk is how many samples are taken before the decision is checked again.
const Chunk = 100

// Certify takes samples of an image with a label. draw adds the answers of n samples, from sample number from on, to
// the counts by class. With radii, sampling ends early if the class is not the label.
//
// With radii the error is shared. Half of Alpha goes to a confidence sequence, which may be looked at after every
// Chunk ([stats.Sequence]); half goes to Clopper and Pearson's bound of all N samples, if they are all taken. Both
// hold together by the union bound, and so does the larger of all lower bounds. A radius is decided when the
// sequence's interval lies on one side of the probability that the radius needs, Φ(radius/Sigma).
func (s Smoothing) Certify(label int, draw func(from, n int, answers []int) error, classes int) (v Vote, err error) {
	answers := make([]int, classes)
	if err := draw(0, s.N0, answers); err != nil {
		return v, err
	}
	v.Class, v.Samples = Most(answers), s.N0
	if early := len(s.Radii) > 0; v.Class < 0 || early && v.Class != label {
		return v, nil
	} else if !early {
		clear(answers)
		err = draw(s.N0, s.N, answers)
		v.Samples += s.N
		v.Lower = lower(answers[v.Class], s.N, s.Alpha)
		return v, err
	}
	clear(answers)
	for n := 0; n < s.N; {
		more := min(Chunk, s.N-n)
		if err := draw(s.N0+n, more, answers); err != nil {
			return v, err
		}
		n += more
		v.Samples += more
		ends := stats.Sequence(answers[v.Class], n, 1-s.Alpha/2)
		v.Lower = max(v.Lower, ends[0])
		undecided := func(radius float64) bool {
			p := distuv.UnitNormal.CDF(radius / s.Sigma)
			return v.Lower < p && p <= ends[1]
		}
		if n < s.N && !slices.ContainsFunc(s.Radii, undecided) {
			return v, nil
		}
	}
	v.Lower = max(v.Lower, lower(answers[v.Class], s.N, s.Alpha/2))
	return v, nil
}

// lower returns Clopper and Pearson's one-sided bound.
func lower(k, n int, alpha float64) float64 { return stats.ClopperPearson(k, n, 1-2*alpha)[0] }

// Most returns the class with the most answers, the first of several, or -1 if there are no answers.
func Most(answers []int) int {
	most := slices.Max(answers)
	if most == 0 {
		return -1
	}
	return slices.Index(answers, most)
}

// Radius returns the certified ℓ2 radius of the label, or 0 if the answer is another class or none.
func (s Smoothing) Radius(v Vote, label int) float64 {
	if v.Class != label || v.Lower <= 0.5 {
		return 0
	}
	return s.Sigma * distuv.UnitNormal.Quantile(v.Lower)
}

func init() { kinds[attacks.SmoothingKind] = majority{} }

// majority certifies the smoothed classifier, which answers the class of most noisy copies of an image.
type majority struct{}

// votes are a proof by smoothing for one of a certificate's epsilons.
type votes struct {
	Smoothing
	each    []Vote
	epsilon float64
}

func (v *votes) radius(i, label int) float64 { return v.Radius(v.each[i], label) }

func (v *votes) Right(i, label int) bool { return v.radius(i, label) >= v.epsilon }

func (v *votes) Tell(i int, r *result.Record) { r.Radius = new(v.radius(i, r.Label)) }

// Complete adds nothing, as smoothing has no numbers of its own in a cell.
func (*votes) Complete(*result.Cell) {}

// smoothingOf returns the certificate's parameters. Each seed draws other noise.
func smoothingOf(c Case) Smoothing {
	s := c.Recipe.Certificate.(attacks.Smoothing)
	how := Smoothing{Sigma: s.Sigma, N0: s.N0, N: s.N, Alpha: s.Alpha}
	if s.Stopping {
		how.Radii = slices.Sorted(slices.Values(c.Setting().Epsilons))
	}
	return how
}

// vote takes the votes of every image. The journal has them for all epsilons at once, so only the first epsilon costs
// anything.
func (p *Prover) vote(ctx context.Context, c Case) (*votes, *Proofs, error) {
	v := &votes{smoothingOf(c), make([]Vote, p.Set.Len()), float64(c.Epsilon())}
	samples := v.N
	if v.Radii != nil {
		samples = Chunk
	}
	most, _ := c.Recipe.Passes(c.Who.Classes)
	made, err := prove(ctx, p, c, proving[Vote]{v, p.key(c, "votes"),
		progress.Words{Done: "sampled", Stand: "certified", SoFar: "certified at most"}, most,
		func() int { return p.sampling(samples) },
		func(i int, one Vote) int { v.each[i] = one; return one.Samples },
		func(ctx context.Context, on *open.Counted, im attacks.Image) (Vote, error) {
			return v.Certify(im.Label, func(from, n int, answers []int) error {
				return p.draw(ctx, on, v.Sigma, c, im, from, n, answers)
			}, c.Who.Classes)
		}, func(int) bool { return false }})
	if err == nil && c.Samples() == 0 {
		made.Seconds = 0 // counted with the first epsilon
	}
	return v, made, err
}

func (majority) prove(ctx context.Context, p *Prover, c Case) (*Proofs, error) {
	_, made, err := p.vote(ctx, c)
	return made, err
}

// measure estimates all samples at most and, if sampling may end early, those that choose the class at least.
func (majority) measure(_ context.Context, _ *Prover, c Case, pass float64) (seconds [2]float64, err error) {
	how := smoothingOf(c)
	most := float64(how.N0 + how.N)
	if seconds = [2]float64{most * pass, most * pass}; how.Radii != nil {
		seconds[0] = float64(how.N0) * pass
	}
	return seconds, nil
}

// sampling returns how many images, each with so many samples at a time, fill the pool's batches twice.
func (p *Prover) sampling(samples int) int {
	pool := p.Pool
	return 1 + (2*pool.Workers()*pool.Batch()+samples-1)/samples
}

// draw adds the answers to n noisy copies of an image, from sample number from on, to answers. A sample's noise
// depends on the seed, the image's id and the sample's number alone.
func (p *Prover) draw(ctx context.Context, on *open.Counted, sigma float64, c Case, im attacks.Image, from, n int,
	answers []int) error {
	type sample struct{ x, logits []float32 }
	held := len(im.Pixels)
	if c.Who.Loop == nil {
		held = 0
	}
	free := sync.Pool{New: func() any { return &sample{make([]float32, held), make([]float32, len(answers))} }}
	counts := make([]atomic.Int64, len(answers))
	noise := vector.NewKey(c.Seed, uint64(im.ID))
	// As many draws are under way at once as sampling says.
	state := int64(p.sampling(n)) * (c.Who.State() + 4*int64(held))
	err := p.ForEach(ctx, n, state, func(ctx context.Context, k int) error {
		one := free.Get().(*sample)
		defer free.Put(one)
		fill := func(x []float32) { vector.Noisy(im.Pixels, float32(sigma), noise.At(uint64(from+k)), x) }
		if err := on.Sample(ctx, fill, one.x, one.logits); err != nil {
			return err
		}
		if class := attacks.Argmax(one.logits); attacks.Right(one.logits, class) { // not for NaN
			counts[class].Add(1)
		}
		return nil
	})
	for class := range counts {
		answers[class] += int(counts[class].Load())
	}
	return err
}

// reply is the smoothed classifier's answer to an attack's image.
type reply struct {
	Class int     `json:"class"`         // the class of most samples, -1 if there was no answer
	Votes int     `json:"votes"`         // number of samples for this class
	Label int     `json:"label"`         // number of samples for the label
	Far   float64 `json:"far,omitempty"` // ℓ2 norm of the perturbation
}

// impossible is the probability below which chance explains nothing.
const impossible = 1e-6

// confront asks the smoothed classifier about the images of an attack under the cells' own seed. An image counts as
// broken if it lies within its certified radius and a binomial test of its n0 samples, at the certificate's alpha,
// rejects the label. Certificate and answer are each wrong with a probability of at most alpha.
func (majority) confront(ctx context.Context, p *Prover, c Case, a Attack) (f Finding, err error) {
	norm, epsilon := a.Norm(), float64(a.Epsilon())
	if c.Samples() == 0 || !a.First || norm == nil {
		return f, nil
	}
	v, _, err := p.vote(ctx, c)
	if err != nil {
		return f, err
	}
	replies, err := p.replies(ctx, c, v, a)
	if err != nil {
		return f, err
	}
	s := &result.Smoothed{Certificate: c.Name()}
	within := a.Setting().Norm.Enclosing(epsilon, c.Who.Shape.Size())
	verdicts := make([]byte, len(replies))
	for i, r := range replies {
		label := p.Set.Label(i)
		if verdicts[i] = '0'; r.Class == label {
			verdicts[i] = '1'
			s.Correct++
		}
		radius := v.radius(i, label)
		if radius >= within {
			s.Proven++
		}
		if radius < r.Far || r.Far == 0 {
			continue
		}
		s.Within++
		if r.Class >= 0 && r.Class != label && 2*stats.BinomialTest(r.Label, r.Label+r.Votes, 0.5) <= v.Alpha {
			s.Broken++
		}
	}
	s.Verdicts, s.Accuracy = string(verdicts), float64(s.Correct)/float64(len(replies))
	f.Smoothed = s
	if s.Broken > 0 {
		f.Broken = fmt.Sprintf("%d of %d images that %s certifies as far as this attack went are answered wrong by "+
			"the smoothed classifier", s.Broken, s.Within, c.Name())
		f.Impossible = stats.BinomialTest(len(replies)-s.Broken, len(replies), 1-2*v.Alpha) < impossible
	}
	return f, nil
}

// replies returns the smoothed classifier's answers to an attack's images. An image that no attack has broken is the
// clean one.
func (p *Prover) replies(ctx context.Context, c Case, v *votes, a Attack) ([]reply, error) {
	out := make([]reply, p.Set.Len())
	for i := range out {
		out[i] = reply{Class: v.each[i].Class}
	}
	images := p.Set.Places(func(i int) bool { return !a.Untried(i) })
	key := a.Key.As("smoothed")
	key.By.Attack = c.Name()
	work, todo, err := folder.Recall[reply](p.Journal, key, p.Set, images, nil)
	if err == nil && len(todo) > 0 {
		on := &open.Counted{Oracle: open.Answering(c.Who)}
		err = work.Do(ctx, todo, open.SideBySide(p.sampling(v.N0)),
			func(ctx context.Context, im attacks.Image, i int) (r reply, err error) {
				x, err := a.Image(im, i)
				if err != nil {
					return r, err
				}
				r.Far = attacks.L2.Distance(im.Pixels, x)
				im.Pixels = x
				counts := make([]int, c.Who.Classes)
				err = p.draw(ctx, on, v.Sigma, c, im, 0, v.N0, counts)
				r.Class, r.Votes, r.Label = Most(counts), slices.Max(counts), counts[im.Label]
				return r, err
			})
	}
	for i, r := range work.Values {
		out[i] = r
	}
	return out, err
}
