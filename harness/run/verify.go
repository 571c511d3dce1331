package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"

	"selfheal/harness/dataset"
	"selfheal/harness/judge"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/result"
)

// Reviewed is the result of judging a cell's saved images again.
type Reviewed struct {
	judge.Verification
	Suite string `json:"suite"`
	File  string `json:"file"`
	// Differ are the ids of the images whose verdict differs from the run's results.
	Differ []int `json:"differ"`
}

// Verify judges the images again that a run of the plan has saved in its folder, and compares by the ids in its
// results. It returns an error if data sets or networks have changed since.
func Verify(ctx context.Context, p *plan.Plan, file *result.File, dir string, o Options) ([]Reviewed, error) {
	opener, err := open.New(p.Config, open.Options{Cache: o.Cache, Progress: o.Progress})
	if err != nil {
		return nil, err
	}
	defer opener.Close()
	opener.IDs = map[string][]int{}
	for name, known := range file.Images {
		if opener.IDs[name] = known.IDs; known.IDs == nil {
			for id := range file.Datasets[name].N {
				opener.IDs[name] = append(opener.IDs[name], id)
			}
		}
	}
	r := &review{Opener: opener, ctx: ctx, file: file, dir: os.DirFS(dir), name: dir}
	if err := p.Walk(r); err != nil {
		return nil, err
	}
	if r.all == nil {
		return nil, fmt.Errorf("%s has no adversarial images of its cells; save_adversarial: true in a suite, or "+
			"--save-adversarial, saves them", dir)
	}
	return r.all, nil
}

type review struct {
	*open.Opener
	ctx  context.Context
	file *result.File
	dir  fs.FS
	name string
	job  *open.Job
	all  []Reviewed
}

// Begin opens a job, whose network and images must be those of the results.
func (r *review) Begin(j *plan.Job) (err error) {
	if r.job, err = r.Job(r.ctx, j); err != nil {
		return open.Wrong(err)
	}
	name := j.Suite.Dataset
	if was := r.file.Datasets[name].SHA256; was != r.Record.Datasets[name].SHA256 {
		err = fmt.Errorf("data set %s has other images than those of %s", name, r.name)
	}
	was, now := r.file.Models[j.Model.Name].Network(), r.Record.Models[j.Model.Name].Network()
	if err == nil && !reflect.DeepEqual(was, now) {
		err = fmt.Errorf("model %s is another file than that of %s, or is taken in another way", j.Model.Name, r.name)
	}
	if err == nil {
		err = r.job.Defend(r.ctx, true)
	}
	if err != nil {
		r.job.Close()
	}
	return open.Wrong(err)
}

func (r *review) End(*plan.Job) error {
	r.job.Close()
	return nil
}

func (r *review) Clean(*plan.Job, plan.Group) error { return nil }

// Try judges a step's images on each of the networks that were scored on them.
func (r *review) Try(s plan.Step) (err error) {
	defer func() {
		if err != nil {
			r.job.Close()
		}
	}()
	name := "adversarial/" + adversarialName(s)
	if _, err := fs.Stat(r.dir, name); !s.First || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	shape, x, err := dataset.ReadArray(r.dir, name)
	if err != nil {
		return fmt.Errorf("%s/%s: %w", r.name, name, err)
	}
	d := r.job.Set.Dataset
	if images := d.Shape(); !slices.Equal(shape, append([]int{d.Len()}, images[:]...)) {
		return fmt.Errorf("%s/%s has the shape %v, the run has %d images of %v", r.name, name, shape, d.Len(), images)
	}
	for _, defense := range s.Scored {
		cell := r.cellOf(s, defense)
		if cell == nil || cell.Error != "" || len(cell.Verdicts) != d.Len() {
			continue
		}
		v, err := judge.Measure(r.ctx, r.Workers, r.job.Classifier(defense), d, s.Trial, x)
		if err != nil {
			return err
		}
		v.Dataset, v.Source = s.Suite.Dataset, s.Source()
		one := Reviewed{Verification: *v, Suite: s.Suite.Name, File: name, Differ: []int{}}
		for i := range v.Verdicts {
			if v.Verdicts[i] != cell.Verdicts[i] {
				one.Differ = append(one.Differ, d.ID(i))
			}
		}
		r.all = append(r.all, one)
	}
	return nil
}

// cellOf returns a step's cell in the results, or nil.
func (r *review) cellOf(s plan.Step, defense string) *result.Cell {
	i := slices.IndexFunc(r.file.Cells, func(c result.Cell) bool {
		return c.Key() == s.Cell(defense).Key()
	})
	if i < 0 {
		return nil
	}
	return &r.file.Cells[i]
}
