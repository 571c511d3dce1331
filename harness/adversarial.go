package harness

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/internal/atomicfile"
)

var unsafeName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// adversarialName is the file of an attack's images, which is readable, and unique whatever the names
// hold.
func adversarialName(job Job, defense string, a PlannedAttack) string {
	parts := []string{job.Suite.Name, job.Model.Name, a.Name}
	key := fmt.Appendf(nil, "%q %q %q %v", job.Suite.Name, job.Model.Name, a.Name, a.Epsilon)
	if defense != config.None { // made against it
		parts, key = append(parts, defense), fmt.Appendf(key, " %q", defense)
	}
	sum := sha256.Sum256(key)
	name := unsafeName.ReplaceAllString(strings.Join(append(parts, fmt.Sprintf("%.6g", a.Epsilon)), "_"), "-")
	return name + fmt.Sprintf("_%x.npy", sum[:4])
}

// adversarial saves a cell's images as float32 [N, C, H, W], unless this run has done so.
func (r *run) adversarial(b *bench, defense string, a PlannedAttack, made *crafted) error {
	name := "adversarial/" + adversarialName(b.Job, defense, a)
	path, saved := r.out.work(name), r.journal.Block(savedKey(name))
	if saved.Written() {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		if _, err := os.Stat(filepath.Join(r.out.dir, name)); err == nil {
			r.out.kept[name] = true
			return nil
		}
	}
	if r.merging {
		return r.joined(b, name)
	}
	s := b.classifiers[0].Shape
	var failed error
	images := func(yield func([]float32) bool) {
		for i := range b.set.Len() {
			if !b.set.own(i) {
				continue
			}
			im, err := b.set.image(i)
			x := im.Pixels
			if err == nil {
				x, err = made.image(im, i)
			}
			if failed = err; err != nil || !yield(x) {
				return
			}
		}
	}
	if err := r.save(name, []int{b.set.mine(), s.C, s.H, s.W}, images, &failed); err != nil {
		return err
	}
	return saved.Append(true)
}

// savedKey says in the journal that a file is there.
func savedKey(name string) string { return "saved " + name }

// save writes a file of images, whose walk may fail.
func (r *run) save(name string, shape []int, images iter.Seq[[]float32], failed *error) error {
	err := atomicfile.In(r.out.work("")).FillSynced(name, func(w io.Writer) error {
		err := dataset.WriteNPY(w, shape, images)
		return cmp.Or(*failed, err)
	})
	if err != nil {
		return fmt.Errorf("adversarial images: %w", err)
	}
	return nil
}
