package harness

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"path/filepath"
	"regexp"
	"strings"

	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/internal/atomicfile"
	"selfheal/internal/input"
	"selfheal/internal/journal"
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
	saved := r.journal.Block(savedKey(name))
	if known, ok := savedAs(saved); ok {
		if known.is(r.out.work(name)) {
			return nil
		}
		if known.is(filepath.Join(r.out.dir, name)) {
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
	sum, err := r.save(name, []int{b.set.mine(), s.C, s.H, s.W}, images, &failed)
	if err != nil {
		return err
	}
	return saved.Append(sum)
}

// savedKey says in the journal that a file is there.
func savedKey(name string) string { return "saved " + name }

// checksum is what the journal keeps of a file.
type checksum struct {
	Bytes int64  `json:"bytes"`
	Sum   uint32 `json:"sum"` // CRC-32C
}

// savedAs is what a journal says last of a file.
func savedAs(block *journal.Block) (known checksum, ok bool) {
	err := block.Read(func(line []byte) error { return json.Unmarshal(line, &known) })
	return known, err == nil && block.Written()
}

// is reports whether a file is as it was written.
func (c checksum) is(path string) bool {
	f, err := input.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	sum := crc32.New(castagnoli)
	n, err := io.Copy(sum, io.LimitReader(f, c.Bytes+1))
	return err == nil && n == c.Bytes && sum.Sum32() == c.Sum
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// save writes a file of images, whose walk may fail.
func (r *run) save(name string, shape []int, images iter.Seq[[]float32], failed *error) (c checksum, err error) {
	sum := crc32.New(castagnoli)
	err = atomicfile.In(r.out.work("")).FillSynced(name, func(w io.Writer) error {
		count := &counter{w: io.MultiWriter(w, sum)}
		err := dataset.WriteNPY(count, shape, images)
		c.Bytes = count.n
		return cmp.Or(*failed, err)
	})
	if err != nil {
		return c, fmt.Errorf("adversarial images: %w", err)
	}
	c.Sum = sum.Sum32()
	return c, nil
}

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
