package run

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/certify"
	"selfheal/harness/folder"
	"selfheal/harness/judge"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/harness/signs"
	"selfheal/harness/stats"
	"selfheal/internal/lists"
	"selfheal/internal/number"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
)

// scoring makes a cell from a classifier and the images or proofs of a step.
type scoring struct {
	*walk
	job *open.Job
	plan.Step
	who    open.Classifier
	recipe attacks.Recipe // of the step's trial
	made   *crafted
	proof  certify.Proof // of a certificate; else nil
	clean  *judgement    // the classifier's on clean images; nil if these are the clean ones or it has none
}

// own reports whether the trial was made of this very classifier.
func (s scoring) own() bool {
	return s.From == s.Job && slices.Contains(s.Of(s.Group), s.who.Defense())
}

func (s scoring) ofClean() bool { return s.Trial == plan.Clean }

func (s scoring) id() cell.ID { return s.Cell(s.who.Defense()) }

func (s scoring) block() folder.Key {
	k := inMode(s.Job, folder.Key{Of: "verdicts", Made: cell.Made{ID: s.id().Key(), Seed: s.Seed}})
	if s.ofClean() {
		k.Attack = ""
	}
	return k
}

// judged returns the verdicts, or in failure the answer that is not finite. Such an answer fails the cell, not the
// run.
func (s scoring) judged(sweeps bool, where string) (v *judgement, failure string, err error) {
	if s.proof != nil {
		return s.proven(), "", nil
	}
	if v, err = s.verdicts(s.job, s.block(), s.who, s.job.Set, s.made, s.clean, sweeps); err != nil {
		err = fmt.Errorf("%s: %w", where, err)
	}
	if errors.As(err, new(open.NotFinite)) {
		return v, err.Error(), nil
	}
	return v, "", err
}

// proven returns the verdicts of a proof about the clean images.
func (s scoring) proven() *judgement {
	out := newJudgement(s.job.Set.Len(), s.who.Info)
	for i := range out.verdicts {
		out.same(i, s.clean)
		out.verdicts[i].Right = s.proof.Right(i, s.job.Set.Label(i))
	}
	return out
}

func (s scoring) cell() result.Cell {
	return result.Cell{ID: s.id(), Recipe: s.recipe.Name, N: s.job.Set.Len(), Steps: []result.Step{},
		Warnings: []result.Warning{}, Norm: s.Norm()}
}

// step scores a classifier. The first seed makes a cell, others add a row to its seeds.
func (s scoring) step() error {
	if !s.First {
		return s.rescore()
	}
	_, err := s.score()
	return err
}

// score makes a cell with its records and returns the verdicts, or nil if the cell has an error.
func (s scoring) score() (*judgement, error) {
	if !s.ofClean() && (s.clean == nil || s.made == nil) {
		return nil, s.cells.fail(s, folder.NoClean)
	}
	got, failure, err := s.judged(true, "suite "+s.Suite.Name)
	if err != nil {
		return nil, err
	}
	if failure != "" {
		return nil, s.cells.fail(s, failure)
	}
	probed, err := s.probed(got.verdicts)
	if err != nil {
		return nil, err
	}
	s.gallery.consider(s, got.verdicts)
	findings, err := s.confront(got.verdicts)
	if err != nil {
		return nil, err
	}
	return got, s.cells.add(s, got, probed, findings)
}

// rescore scores the images of another seed, if the first seed has made a cell.
func (s scoring) rescore() error {
	cell := s.cells.of(s)
	if s.made == nil || s.clean == nil || cell != nil && cell.Error != "" {
		return nil
	}
	got, failure, err := s.judged(false, fmt.Sprintf("suite %s, seed %d", s.Suite.Name, s.Seed))
	var findings []certify.Finding
	if err == nil && failure == "" {
		findings, err = s.confront(got.verdicts)
	}
	if err != nil {
		return err
	}
	return s.cells.addSeed(s, cell, got, failure, findings)
}

// confront checks the certificates of a job against the images of a scoring, unless it is a certificate's own.
func (s scoring) confront(v []judge.Verdict) (all []certify.Finding, err error) {
	if s.ofClean() || s.proof != nil {
		return nil, nil
	}
	a := certify.Attack{Trial: s.Trial, First: s.First, Key: s.block(), Images: s.made,
		Wrong: func(i int) bool { return !v[i].Right }}
	for _, t := range s.Trials {
		if s.job.Recipes[t].Certificate == nil {
			continue
		}
		found, err := s.at.prover.Confront(s.ctx, s.certificate(t, s.plan.Config.Seed), a)
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	return all, nil
}

// certificate returns the certificate that a trial makes of the classifier.
func (s scoring) certificate(t plan.Trial, seed uint64) certify.Case {
	s.Trial, s.Seed, s.recipe = t, seed, s.job.Recipes[t]
	return certify.Case{Trial: t, Recipe: s.recipe, Who: s.who, Seed: seed, ID: s.id(),
		Label: s.label(), Right: func(i int) bool { return s.clean.verdicts[i].Right }}
}

func (s scoring) label() string {
	own := s.Seed == s.plan.Config.Seed
	label := s.cells.next(own) + cmp.Or(s.Source(), s.Model.Name) + ", " + s.Trial.Name()
	if s.Epsilon() != 0 && len(s.Setting().Epsilons) > 1 {
		label += " " + s.Epsilon().String()
	}
	if s.who.Control != nil {
		label += ", " + s.id().Mode + " " + s.who.Defense()
	}
	if !own {
		label += fmt.Sprintf(", seed %d", s.Seed)
	}
	return label
}

// cells are the results so far. A nil *cells takes none, because a part leaves cells to the merge.
type cells struct {
	record   *result.File
	out      *folder.Folder
	progress *progress.Progress
	total    int
}

func newCells(r *run) *cells { return &cells{r.record, r.out, r.progress, r.plan.Cells()} }

// next numbers the next cell in a line of progress, or returns "" if none follows.
func (c *cells) next(follows bool) string {
	if c == nil || !follows {
		return ""
	}
	return fmt.Sprintf("[%d/%d] ", len(c.record.Cells)+1, c.total)
}

// of returns the cell that the first seed of a scoring has made.
func (c *cells) of(s scoring) *result.Cell {
	for i := 0; c != nil && i < len(c.record.Cells); i++ {
		if one := &c.record.Cells[i]; one.ID == s.id() {
			return one
		}
	}
	return nil
}

// fail makes a cell that says why it has no verdicts.
func (c *cells) fail(s scoring, why string) error {
	if c == nil {
		return nil
	}
	cell := s.cell()
	cell.Error = why
	c.record.Cells = append(c.record.Cells, cell)
	c.progress.Report(progress.CellFailed{ID: cell.ID, Error: why})
	return c.out.Cell(c.record, nil)
}

// unproven makes the run end with an error: an image is certified and broken, which chance does not explain.
func (c *cells) unproven(cell result.Cell, who open.Classifier, text string) {
	c.record.Failed = append(c.record.Failed, fmt.Sprintf("suite %s, %s, attack %s: %s: the certificate or this "+
		"program is wrong", cell.Suite, who, cell.Attack, text))
}

// A network with so many classes, for images with at least such a side, counts as one of ImageNet's.
const imagenetClasses, imagenetSide = 1000, 224

// add makes a cell from verdicts and writes it with its records.
func (c *cells) add(s scoring, got *judgement, probed []result.Warning, findings []certify.Finding) error {
	if c == nil {
		return nil
	}
	v, cell := got.verdicts, s.cell()
	cell.Seconds, cell.Measures = got.seconds, judge.Measures(s.Model.Task.Kind, v)
	cell.Warn(warnings(s, v)...)
	cell.Warn(probed...)
	if s.ofClean() && s.who.Control == nil {
		left := c.record.Datasets[s.Suite.Dataset].LeftOut
		cell.Warn(leftOut(s.Suite.Dataset, left)...)
	}
	for _, f := range findings {
		if f.Smoothed != nil {
			cell.Smoothed = append(cell.Smoothed, *f.Smoothed)
		}
		if f.Broken != "" {
			cell.Warn(result.WarnCertifiedBroken.New("%s", f.Broken))
		}
		if f.Impossible {
			c.unproven(cell, s.who, f.Broken)
		}
	}
	own := s.own()
	if own {
		cell.Steps = append(cell.Steps, s.made.steps...)
		cell.VerdictOnly, cell.Agreement, cell.Planted = s.made.verdictOnly, s.made.agreement, s.made.planted
		cell.Seconds += s.made.seconds
		if s.recipe.Stored {
			rounded := func(robust bool, as attacks.Rounding) int {
				return lists.Count(s.made.each, func(a attempt) bool { return a.Robust == robust && a.Rounded == as })
			}
			cell.Stored = &result.Stored{Regained: rounded(false, attacks.Regained), Lost: rounded(true, attacks.Lost)}
		}
		if s.recipe.Minimises {
			cell.Area = new(area(s.made.each, s.clean.verdicts, s.recipe.Epsilon))
		}
	}
	if s.proof != nil {
		s.proof.Complete(&cell)
	} else if s.Model.Votes > 0 {
		cell.Votes = voted(v, s.Model.Votes)
	}
	if s.who.Control != nil {
		cell.Solver = got.summary(s.who.Control)
	}
	if made := s.recipe.Corruption; made != nil && s.who.Classes == imagenetClasses && s.who.Shape.H >= imagenetSide {
		cell.AlexNetError = made.AlexNetError()
	}
	text, _ := bits(v)
	cell = cell.Judged(text)
	for i, v := range v {
		cell.MaxNorm = max(cell.MaxNorm, v.Norm)
		if v.Near {
			cell.Near = append(cell.Near, i)
		}
		switch made := s.made.at(i); {
		case made.First >= 0 && !v.Right && v.Near:
			cell.WithinRounding++
		case made.Robust && v.Right && made.Seen.Failed():
			cell.GradientFailures++
		}
	}
	c.record.Cells = append(c.record.Cells, cell)
	told := own && s.who.Control == nil && s.recipe.Components != nil // by the recipe's last component
	c.progress.Scored(cell, len(c.record.Cells), c.total, told)
	return c.out.Cell(c.record, records(cell, s, v))
}

// addSeed adds the verdicts of a further seed to a cell, or says why there are none.
func (c *cells) addSeed(s scoring, cell *result.Cell, got *judgement, failure string,
	findings []certify.Finding) error {
	if c == nil || cell == nil {
		return nil
	}
	for _, f := range findings {
		if f.Impossible {
			c.unproven(*cell, s.who, fmt.Sprintf("seed %d: %s", s.Seed, f.Broken))
		}
	}
	id := cell.ID
	if failure != "" {
		c.record.Failed = append(c.record.Failed, failure)
		c.progress.Report(progress.SeedFailed{ID: id, Seed: s.Seed, Error: failure})
		return nil
	}
	score := result.SeedScore{Seed: s.Seed, Seconds: got.seconds}
	if s.own() {
		score.Seconds += s.made.seconds
	}
	score.Verdicts, score.Correct = bits(got.verdicts)
	score.Accuracy = float64(score.Correct) / float64(s.job.Set.Len())
	if cell.Seeds == nil {
		cell.Seeds = []result.SeedScore{{Seed: c.record.Seed, Correct: cell.Correct, Accuracy: cell.Accuracy,
			Verdicts: cell.Verdicts, Seconds: cell.Seconds}}
	}
	cell.Seeds = append(cell.Seeds, score)
	c.progress.Report(progress.SeedFinished{ID: id, Seed: s.Seed,
		Score: progress.Score{Accuracy: score.Accuracy, Correct: score.Correct, N: cell.N, Seconds: score.Seconds}})
	return c.out.Cell(c.record, nil)
}

// records returns the records of a cell, one for each image.
func records(c result.Cell, s scoring, verdicts []judge.Verdict) iter.Seq[result.Record] {
	own, set := s.own(), s.job.Set
	return func(yield func(result.Record) bool) {
		for i, v := range verdicts {
			made := s.made.at(i)
			record := result.Record{ID: c.ID, Image: set.ID(i), File: set.File(i), Label: set.Label(i),
				Verdict: int(c.Verdicts[i] - '0'), Predicted: v.Class, Confidence: v.Confidence,
				Margin: result.Margin(v.Margin), Norm: v.Norm}
			record.Dataset = ""
			if made.First >= 0 {
				record.FirstSuccess = &made.First
				if own {
					record.Queries = &made.Queries
				}
			}
			switch d := made.Nearest; {
			case own && d > 0:
				record.Distance = new(result.Distance(d))
			case own && s.recipe.Minimises && s.clean.verdicts[i].Right:
				record.Distance = new(result.Distance(math.Inf(1)))
			case own && s.recipe.Minimises:
				record.Distance = new(result.Distance(0))
			}
			if s.Within().Norm == attacks.L0 {
				record.Pixels = &v.Pixels
			}
			if made.Pose != nil {
				record.Rotation, record.Translation = &made.Pose.Rotation, &[2]float64{made.Pose.X, made.Pose.Y}
			}
			if s.proof != nil {
				s.proof.Tell(i, &record)
			} else if s.Model.Votes > 0 {
				record.Votes = &v.Votes
			}
			if s.clean != nil {
				record.CleanMargin = new(float64(s.clean.verdicts[i].Margin))
			}
			if !yield(record) {
				return
			}
		}
	}
}

func voted(all []judge.Verdict, passes int) *result.Votes {
	of, variance, n := &result.Votes{Passes: passes}, 0.0, float64(len(all))
	for _, v := range all {
		share := float64(v.Votes) / float64(passes)
		of.Expected += share / n
		variance += share * (1 - share) / float64(passes-1) / n / n
		if 2*stats.BinomialTest(min(v.Votes, v.Rival), v.Votes+v.Rival, 0.5) > 0.05 {
			of.Undecided++
		}
	}
	apart := 1.96 * math.Sqrt(variance)
	of.CI95 = [2]float64{max(of.Expected-apart, 0), min(of.Expected+apart, 1)}
	return of
}

// area returns the area under the curve of accuracy against epsilon, up to the largest: the mean of the distances,
// each cut at largest.
func area(each []attempt, clean []judge.Verdict, largest float64) float64 {
	sum := 0.0
	for i, a := range each {
		switch {
		case !clean[i].Right:
		case a.Nearest > 0:
			sum += min(a.Nearest, largest)
		default:
			sum += largest
		}
	}
	return sum / float64(len(each))
}

// bits writes verdicts as a cell does, and counts the right ones.
func bits(verdicts []judge.Verdict) (text string, correct int) {
	b := make([]byte, len(verdicts))
	for i, v := range verdicts {
		b[i] = '0'
		if v.Right {
			b[i] = '1'
			correct++
		}
	}
	return string(b), correct
}

// leftOut returns the warnings about classes and files that a data set leaves out.
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
	if changed := left.Changed(); left.Unreadable > 0 {
		list = append(list, result.WarnImagesChanged.New("data set %s: %s", name, changed))
	}
	return list
}

// warnings returns the warnings that follow from a cell's own numbers.
func warnings(s scoring, v []judge.Verdict) []result.Warning {
	who, recipe := s.who, s.recipe
	var list []result.Warning
	warn := func(when bool, kind result.WarningKind, format string, args ...any) {
		if when {
			list = append(list, kind.New(format, args...))
		}
	}
	for _, notice := range who.Notices {
		changes := !strings.HasSuffix(notice, simplify.NoticeLong) && !strings.HasSuffix(notice, onnx.NoticeNamed)
		warn(changes, result.WarnConverted, "model %s: %s", who.Model, notice)
	}
	if who.Control == nil {
		list = append(list, signs.Answers(s.Model, who, v)...)
	}
	odd := lists.Count(v, func(v judge.Verdict) bool { return !number.Finite(float64(v.Margin)) })
	warn(odd > 0, result.WarnNotFiniteAnswer, "on %s %s gives NaN or infinite logits; NaN counts as a wrong answer",
		signs.Share(odd, len(v)), who)
	rounds := lists.Count(v, func(v judge.Verdict) bool { return v.Rounds && v.Right })
	warn(rounds > 0, result.WarnRounded, "%s takes uint8: on %s an attack's pixels between the levels break its "+
		"opened form, and the nearest levels do not break the file; pixels 8bit looks among the levels", who,
		signs.Share(rounds, len(v)))
	if made := s.made; s.own() {
		asked := lists.Count(made.each, func(a attempt) bool { return a.Seen.Asked })
		zero := lists.Count(made.each, func(a attempt) bool { return a.Seen.Blind > 0 })
		wild := lists.Count(made.each, func(a attempt) bool { return a.Seen.NotFinite })
		warn(float64(made.refuted) > signs.Noise*float64(len(v)), result.WarnClaimRefuted,
			"an attack claimed %d successes that the judge did not see again", made.refuted)
		healed := 0
		for i, a := range made.each {
			if a.First >= 0 && v[i].Right {
				healed++
			}
		}
		warn(healed > 0, result.WarnJudgedApart, "the judge found %s wrong when an attack made them, and right when "+
			"it read them again", signs.Share(healed, len(v)))
		warn(zero > 0, result.WarnZeroGradient, "on %s an attack began with a gradient of 0", signs.Share(zero, asked))
		warn(wild > 0, result.WarnNotFiniteGradient, "on %s a loss or a gradient was infinite or NaN",
			signs.Share(wild, asked))
		if again := made.agreement; again != nil {
			warn(again.Agree < again.N, result.WarnPrecisionDiffers,
				"of %d images that stood under an attack in %s and were attacked again in float32, %d fell",
				again.N, s.Setting().Precision, again.N-again.Agree)
		}
		list = append(list, made.warnings...)
		for _, broke := range signs.SquareWins(made.steps, len(v)) {
			warn(true, result.WarnSquareWins,
				"Square, which sees no gradients, broke %d images that the gradient attacks before it had left", broke)
		}
	}
	warn(strings.HasPrefix(recipe.Name, "autoattack-quick"), result.WarnQuick,
		"recipe %s: runs of APGD that give up early and may leave a little more than standard, which has the last "+
			"word", recipe.Name)
	warn(recipe.Fallback != "", result.WarnFewClasses, "%s", recipe.Fallback)
	warn(recipe.Name == "" && nearChance(v, who.Classes), result.WarnNearChance,
		"clean accuracy is near chance (1 of %d classes): the mean and std, the channel order or the "+
			"labels may be wrong", who.Classes)
	warn(who.Control != nil && who.Control.Solver.Iterates(), result.WarnOptimisationLoop,
		"the defense %s solves an optimisation problem for every image: its robustness must be judged by an attack "+
			"through that loop", who.Defense())
	return list
}

// fewest is the least number of images for a statement about chance.
const fewest = 20

// nearChance reports whether an accuracy can't be told from guessing.
func nearChance(v []judge.Verdict, classes int) bool {
	right := lists.Count(v, func(v judge.Verdict) bool { return v.Right })
	return len(v) >= fewest && stats.Wilson(right, len(v))[0] <= 1/float64(classes)
}
