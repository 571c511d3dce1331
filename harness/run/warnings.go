package run

import (
	"fmt"
	"slices"
	"strings"

	"selfheal/harness/config"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/harness/stats"
	"selfheal/internal/number"
	"selfheal/models/onnx/simplify"
)

// leftOut are the warnings about classes and files that a data set leaves out, if any.
func leftOut(name string, left *result.LeftOut) (list []result.Warning) {
	if left == nil {
		return nil
	}
	if n := left.Classes; n > 0 {
		list = append(list, result.WarnClassesLeftOut.New("the limit leaves no image of %d of the classes of data set "+
			"%s; sample: {n: N, per_class: true} takes them evenly", n, name))
	}
	if n := left.Files; n > 0 {
		names := strings.Join(left.Names, ", ")
		if n > len(left.Names) {
			names += ", …"
		}
		list = append(list, result.WarnFilesLeftOut.New("data set %s: what is no image was left out, %d in number: %s",
			name, n, names))
	}
	return list
}

// warnings are those that a cell's own numbers give.
func warnings(s scoring, v []verdict) []result.Warning {
	who, recipe := s.who, s.recipe
	var list []result.Warning
	warn := func(when bool, kind result.WarningKind, format string, args ...any) {
		if when {
			list = append(list, kind.New(format, args...))
		}
	}
	for _, notice := range who.Notices {
		warn(!strings.HasSuffix(notice, simplify.NoticeLong), result.WarnConverted, "model %s: %s", who.Model, notice)
	}
	probabilities := !slices.ContainsFunc(v, func(v verdict) bool { return !v.Simplex })
	warn(who.Control == nil && probabilities && s.Model.Output != "probabilities", result.WarnProbabilities,
		"model %s gives probabilities, not logits; losses on them have vanishing gradients: set output: probabilities",
		who.Model)
	if who.Control == nil && s.Model.Output == "probabilities" {
		logits := howMany(v, func(v verdict) bool { return !v.Logs })
		warn(logits > 0, result.WarnNoProbabilities,
			"model %s has output: probabilities, but on %s its output does not add up to 1",
			who.Model, share(logits, len(v)))
	}
	odd := howMany(v, func(v verdict) bool { return !number.Finite(float64(v.Margin)) })
	warn(odd > 0, result.WarnNotFiniteAnswer, "on %s %s gives NaN or infinite logits; NaN counts as a wrong answer",
		share(odd, len(v)), who)
	if made := s.made; s.own {
		asked := howMany(made.each, func(a attempt) bool { return a.Seen.Asked })
		zero := howMany(made.each, func(a attempt) bool { return a.Seen.Zero })
		wild := howMany(made.each, func(a attempt) bool { return a.Seen.NotFinite })
		warn(made.refuted > 0, result.WarnClaimRefuted,
			"an attack claimed %d successes that the judge did not see again", made.refuted)
		warn(zero > 0, result.WarnZeroGradient, "on %s an attack began with a gradient of 0", share(zero, asked))
		warn(wild > 0, result.WarnNotFiniteGradient, "on %s a loss or a gradient was infinite or NaN",
			share(wild, asked))
		if again := made.agreement; again != nil {
			warn(again.Agree < again.N, result.WarnPrecisionDiffers,
				"of %d images that stood under an attack in %s and were attacked again in float32, %d fell",
				again.N, s.Setting().Precision, again.N-again.Agree)
		}
		list = append(list, made.warnings...)
		for _, broke := range squareWins(made.steps, len(v)) {
			warn(true, result.WarnSquareWins,
				"Square, which sees no gradients, broke %d images that the gradient attacks before it had left", broke)
		}
	}
	warn(strings.HasPrefix(recipe.Name, "autoattack-quick"), result.WarnQuick,
		"recipe %s: short runs of APGD, which left at most 0.5 points more than standard on the twelve cases "+
			"that it was chosen by and 1.2 on six others; standard has the last word", recipe.Name)
	warn(recipe.Fallback != "", result.WarnFewClasses, "%s", recipe.Fallback)
	warn(recipe.Name == "" && nearChance(v, who.Classes), result.WarnNearChance,
		"clean accuracy is near chance (1 of %d classes): the mean and std, the channel order or the "+
			"labels may be wrong", who.Classes)
	warn(who.Control != nil && who.Control.Solver.Iterates(), result.WarnOptimisationLoop,
		"the defense %s solves an optimisation problem for every image: its robustness must be judged by an attack "+
			"through that loop", who.Defense())
	return list
}

// share words n of so many images.
func share(n, of int) string {
	return fmt.Sprintf("%d of %d images (%.1f %%)", n, of, 100*float64(n)/float64(max(of, 1)))
}

// squareMargin is the drop, as a share of all images, from which Square's
// success is more than noise; the reference AutoAttack's.
const squareMargin = 0.002

// squareWins lists for each run of Square after a gradient attack how many images it
// broke, where that is more than noise: above the reference's margin, and more
// than one.
func squareWins(steps []result.Step, n int) []int {
	var wins []int
	for i, s := range steps {
		if s.Attack != "square" || i == 0 {
			continue
		}
		drop := steps[i-1].Robust - s.Robust
		if broke := int(drop*float64(n) + 0.5); broke > 1 && drop > squareMargin {
			wins = append(wins, broke)
		}
	}
	return wins
}

// fewest is how many images it takes to speak of chance.
const fewest = 20

// nearChance reports whether an accuracy can't be told from that of guessing.
func nearChance(v []verdict, classes int) bool {
	right := howMany(v, func(v verdict) bool { return v.Right })
	return len(v) >= fewest && stats.Wilson(right, len(v))[0] <= 1/float64(classes)
}

// maskingDrop is how far, at least, an oblivious number must lie above the one that an
// attack through the controls leaves, to be called masked; their intervals must not meet.
const maskingDrop = 0.1

// maskedByControl warns in oblivious cells whose control keeps more than the undefended
// network does, and loses it to the same attack made through the controls: beyond what
// the numbers of images explain, the control hid the gradient rather than healing.
func maskedByControl(cells []result.Cell, p *progress.Progress) {
	for i := range cells {
		c := &cells[i]
		if c.Mode != result.Oblivious || c.Defense == config.None || c.Epsilon == nil {
			continue
		}
		healed := c.Error == "" && slices.ContainsFunc(cells, func(b result.Cell) bool {
			return b.Error == "" && b.Suite == c.Suite && b.Model == c.Model && b.Defense == config.None &&
				b.Attack == c.Attack && b.Epsilon != nil && *b.Epsilon == *c.Epsilon && b.Accuracy < c.Accuracy
		})
		for _, w := range cells {
			if !healed || w.Error != "" || w.Mode != result.WhiteboxThrough || w.Attack != c.Attack ||
				w.Dataset != c.Dataset || w.Model != c.Model || w.Defense != c.Defense || *w.Norm != *c.Norm ||
				*w.Epsilon != *c.Epsilon {
				continue
			}
			if c.Accuracy-w.Accuracy > maskingDrop && c.CI95[0] > w.CI95[1] {
				c.Warnings = append(c.Warnings, result.WarnMaskedByControl.New(
					"oblivious accuracy %.1f %%, but an attack that knows the control leaves %.1f %% (suite %s, %s)",
					100*c.Accuracy, 100*w.Accuracy, w.Suite, w.Attack))
				p.Report(progress.CellWarned{CellID: progress.IdentityOf(*c), Warning: c.Warnings[len(c.Warnings)-1]})
			}
		}
	}
}
