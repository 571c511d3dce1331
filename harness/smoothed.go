package harness

import (
	"context"
	"fmt"
	"slices"

	"selfheal/attacks"
	"selfheal/harness/certify"
	"selfheal/harness/result"
	"selfheal/harness/stats"
)

// polls is how many samples the smoothed classifiers of a job's certificates take of an image that an attack broke.
func (j Job) polls() (samples int64) {
	for _, a := range j.Attacks {
		if !a.smooths() {
			continue
		}
		r, err := a.Make(a.Epsilon, assumedClasses)
		if s, ok := r.Certificate.(attacks.Smoothing); ok && err == nil {
			samples += int64(s.N0)
		}
	}
	return samples
}

// reply is what a smoothed classifier answers to an attack's image.
type reply struct {
	Class int     `json:"class"`         // that most samples have, -1 where there is no answer
	Votes int     `json:"votes"`         // for it
	Label int     `json:"label"`         // for the label
	Far   float64 `json:"far,omitempty"` // ℓ2 norm of the perturbation
}

// smoothed asks the smoothed classifiers of the job's certificates about the images that an attack made. It counts an
// image as broken if it lies within its certified radius and a binomial test of its n0 samples, at the certificate's
// alpha, is sure of another class.
func (r *run) smoothed(ctx context.Context, s scoring) (list []result.Smoothed, err error) {
	for i, a := range s.Attacks {
		if !a.smooths() {
			continue
		}
		by, made, err := r.certificate(ctx, s, i)
		if err != nil {
			return nil, err
		}
		proof := made.proof.(*ballot)
		answers, err := r.answersOf(ctx, s, proof, by)
		if err != nil {
			return nil, err
		}
		one := result.Smoothed{Certificate: a.Name}
		within := s.attack.Norm.Enclosing(s.attack.Epsilon, s.who.Shape.Size())
		verdicts := make([]verdict, len(answers))
		for k, of := range answers {
			label := s.set.Label(k)
			verdicts[k].Right = of.Class == label
			radius := proof.radius(k, label)
			if radius >= within {
				one.Proven++
			}
			if radius < of.Far || of.Far == 0 {
				continue
			}
			one.Within++
			if of.Class >= 0 && of.Class != label &&
				2*stats.BinomialTest(of.Label, of.Label+of.Votes, 0.5) <= proof.Alpha {
				one.Broken++
			}
		}
		one.Verdicts, one.Correct = bits(verdicts)
		one.Accuracy = float64(one.Correct) / float64(len(answers))
		list = append(list, one)
	}
	return list, nil
}

// contradicted warns of images that are certified and broken. Certificate and answer are each wrong with a probability
// of at most alpha. Where that does not explain so many images, the run ends with an error: the certificate or the
// program is wrong.
func (r *run) contradicted(s scoring, c result.Cell) (list []result.Warning) {
	for _, of := range c.Smoothed {
		if of.Broken == 0 {
			continue
		}
		text := fmt.Sprintf("%d of %d images that %s certifies as far as this attack went are answered wrong by the "+
			"smoothed classifier", of.Broken, of.Within, of.Certificate)
		list = append(list, result.WarnCertifiedBroken.New("%s", text))
		i := slices.IndexFunc(s.Attacks, func(a PlannedAttack) bool { return a.Name == of.Certificate })
		alpha := smoothingOf(s.Attacks[i], s.recipes[i]).Alpha // that of each certificate, and of each answer
		if stats.BinomialTest(c.N-of.Broken, c.N, 1-2*alpha) < impossible {
			r.unproven(c, s.who, text)
		}
	}
	return list
}

// unproven has the run end with an error: an image is certified and broken.
func (r *run) unproven(c result.Cell, who classifier, text string) {
	r.record.Failed = append(r.record.Failed, fmt.Sprintf("suite %s, %s, attack %s: %s: the certificate or this "+
		"program is wrong", c.Suite, who, c.Attack, text))
}

// impossible is the probability below which chance explains nothing.
const impossible = 1e-6

// answersOf are a smoothed classifier's to an attack's images. One that no attack has broken is the clean one.
func (r *run) answersOf(ctx context.Context, s scoring, p *ballot, by scoring) ([]reply, error) {
	out, known := make([]reply, s.set.Len()), make([]bool, s.set.Len())
	work, err := recall(r.journal, fmt.Sprintf("smoothed %q %s", by.attack.Name, s.key()), func(i int, a reply) {
		if i >= 0 && i < len(out) {
			out[i], known[i] = a, true
		}
	})
	var todo []int
	for i := range out {
		if s.made.untried(i) {
			out[i] = reply{Class: p.votes[i].Class}
		} else if !known[i] && s.set.own(i) {
			todo = append(todo, i)
		}
	}
	if err != nil || len(todo) == 0 {
		return out, err
	}
	if r.merging {
		return nil, lacks{shard: s.set.owner[todo[0]], image: s.set.ID(todo[0])}
	}
	on := &counted{oracle: listening(s.who)}
	return out, sideBySide(ctx, todo, r.sampling(p.N0), func(ctx context.Context, i int) error {
		im, err := s.set.image(i)
		if err != nil {
			return err
		}
		x, err := s.made.image(im, i)
		if err != nil {
			return err
		}
		out[i].Far = attacks.L2.Distance(im.Pixels, x)
		im.Pixels = x
		votes := make([]int, s.who.Classes)
		if err := r.draw(ctx, on, p.Sigma, by, im, 0, p.N0, votes); err != nil {
			return err
		}
		out[i].Class, out[i].Votes, out[i].Label = certify.Most(votes), slices.Max(votes), votes[im.Label]
		return work.done(i, out[i])
	})
}
