package run

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/folder"
	"selfheal/harness/plan"
	"selfheal/internal/atomicfile"
	"selfheal/internal/input"
	"selfheal/internal/journal"
)

var unsafeName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// adversarialName is the file of a trial's images, which is readable, and unique whatever the names hold.
func adversarialName(s plan.Step) string {
	parts := []string{s.Suite.Name, s.Model.Name, s.Trial.Name()}
	key := fmt.Appendf(nil, "%q %q %q %v", parts[0], parts[1], parts[2], s.Epsilon())
	if s.Attacked != config.None { // made against it
		parts, key = append(parts, s.Attacked), fmt.Appendf(key, " %q", s.Attacked)
	}
	sum := sha256.Sum256(key)
	name := unsafeName.ReplaceAllString(strings.Join(append(parts, fmt.Sprintf("%.6g", s.Epsilon())), "_"), "-")
	return name + fmt.Sprintf("_%x.npy", sum[:4])
}

// adversarial saves a step's images as float32 [N, C, H, W], unless this run has done so.
func (r *run) adversarial(s plan.Step, made *crafted) error {
	name := "adversarial/" + adversarialName(s)
	saved := r.journal.Block(SavedKey(name))
	if known, ok := SavedAs(saved); ok {
		if known.Is(r.out.Work(name)) {
			return nil
		}
		if known.Is(filepath.Join(r.out.Dir, name)) {
			r.out.Kept[name] = true
			return nil
		}
	}
	set, shape := r.job.Set, r.job.Classifiers[0].Shape
	image := func(i int) ([]float32, error) {
		_, x, err := made.read(set, i)
		return x, err
	}
	sum, err := save(r.out.Work(""), name, []int{set.Mine(), shape.C, shape.H, shape.W}, func(row func([]float32) bool) error {
		return r.source.Adversarial(r.job, name, image, row)
	})
	if err != nil {
		return err
	}
	return saved.Append(sum)
}

// SavedKey says in the journal that a file is there.
func SavedKey(name string) folder.Key { return folder.Key{Of: folder.Saved, Part: name} }

// Checksum is the journal's of a file.
type Checksum struct {
	Bytes int64  `json:"bytes"`
	Sum   uint32 `json:"sum"` // CRC-32C
}

// SavedAs is the last checksum that a journal has of a file.
func SavedAs(block *journal.Block) (known Checksum, ok bool) {
	err := block.Read(func(line []byte) error { return json.Unmarshal(line, &known) })
	return known, err == nil && block.Written()
}

// Is reports whether a file is as it was written.
func (c Checksum) Is(path string) bool {
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

// save writes a file of images, row by row.
func save(dir, name string, shape []int, rows func(row func([]float32) bool) error) (c Checksum, err error) {
	sum := crc32.New(castagnoli)
	err = atomicfile.In(dir).FillSynced(name, func(w io.Writer) error {
		var failed error
		count := &counter{w: io.MultiWriter(w, sum)}
		err := dataset.WriteNPY(count, shape, func(row func([]float32) bool) { failed = rows(row) })
		c.Bytes = count.n
		return cmp.Or(failed, err)
	})
	if err != nil {
		return c, fmt.Errorf("adversarial images: %w", err)
	}
	c.Sum = sum.Sum32()
	return c, nil
}

// counter counts written bytes.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
