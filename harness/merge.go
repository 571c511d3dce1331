package harness

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"selfheal/harness/cluster"
	"selfheal/harness/result"
	"selfheal/internal/fault"
	"selfheal/internal/input"
	"selfheal/internal/journal"
)

// shardWork is what a run has left of a shard. There may be thousands.
type shardWork struct {
	dir      string // its folder
	shard    Shard
	finished bool
	cpu      string
}

func (w shardWork) work() string { return filepath.Join(w.dir, workFolder) }

// FindShards lists the folders of shards, and of attempts at them, in a folder, which may be one itself. It is empty
// where there are none.
func FindShards(dir string) ([]string, error) {
	var found []string
	for _, pattern := range []string{"", attemptPrefix + "*", "shard-*-of-*", "shard-*-of-*/" + attemptPrefix + "*"} {
		names, err := filepath.Glob(filepath.Join(escaped(dir), pattern, workFolder, planFile))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			// What is damaged is named by a merge.
			if plan, err := readPlan(name); err != nil || plan.Shard != nil {
				found = append(found, filepath.Dir(filepath.Dir(name)))
			}
		}
	}
	return found, nil
}

// escaped is a path as a pattern that matches it alone.
func escaped(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// Merge makes the results of a plan from those of its shards, in the folders dirs, and writes them to o.Out: they are
// those of the run that does all of it. No file that the config names is opened. Of o it reads Out, Force, Progress
// and Report.
func Merge(ctx context.Context, dirs []string, o Options) (*result.File, error) {
	first, works, err := shardWorks(dirs)
	if err != nil {
		return nil, err
	}
	plan, err := NewPlan(first.Config)
	if err != nil {
		return nil, err
	}
	r := &run{opener: &opener{cfg: first.Config, progress: o.Progress, record: first.Run, shares: &shares{}},
		plan: plan, merging: true, parts: works, sums: map[string]checksum{}, uses: map[craftKey]*use{},
		again: map[string]bool{}, probes: map[probeKey][]result.Warning{}}
	if r.progress == nil {
		r.progress = &Progress{}
	}
	r.record.Finished, r.record.Cells, r.record.Command = nil, []result.Cell{}, wholly(r.record.Command)
	r.machines()
	r.gallery = newGallery(r.cfg, r.record.ConfigSHA256)
	r.record.Gallery = r.gallery.file
	if r.out, err = openOutput(o.Out, o.Force); err != nil {
		return nil, err
	}
	defer r.out.unlock()
	if err := r.mayMerge(o.Force); err != nil {
		return nil, err
	}
	if r.journal, err = r.out.begin(planned{Run: r.record}); err != nil {
		return nil, err
	}
	defer r.journal.Close()
	if err := r.gather(ctx); err != nil {
		return nil, err
	}
	r.reserve()
	for _, j := range plan.Jobs {
		if err := r.job(ctx, j); err != nil {
			return nil, err
		}
	}
	return r.record, r.end(o, nil)
}

// mayMerge holds that nothing is lost when the output folder takes the results of all shards.
func (r *run) mayMerge(force bool) error {
	held := []*result.File{r.out.old}
	if p, err := readPlan(r.out.work(planFile)); err == nil {
		if held = append(held, p.Run); p.Shard != nil {
			return fmt.Errorf("%s is the folder of shard %s: choose another --out", r.out.dir, p.Shard)
		}
	}
	for _, f := range held {
		if f == nil || force {
			continue
		}
		if list, err := r.differences(f); err != nil || len(list) > 0 {
			return cmp.Or(err, fmt.Errorf("%s holds another run: %s; %w", r.out.dir,
				result.SayFirst(list, "there", "here"), ErrOtherRun))
		}
	}
	return nil
}

// machines notes on what processors the shards ran, and warns where they differ.
func (r *run) machines() {
	e := &r.record.Environment
	for _, w := range slices.Concat(r.parts...) {
		if !slices.Contains(e.CPUs, w.cpu) {
			e.CPUs = append(e.CPUs, w.cpu)
		}
	}
	if len(e.CPUs) == 1 {
		e.CPUs = nil
		return
	}
	r.progress.report(processorsDiffer{e.CPUs})
}

// shardWorks reads what there is of the shards, by number, and holds that it is one plan's, whole. Of several attempts
// at a shard one that is finished comes first.
func shardWorks(dirs []string) (first *planned, works [][]shardWork, err error) {
	for _, dir := range dirs {
		plan, err := readPlan(filepath.Join(dir, workFolder, planFile))
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("%s: %w", dir, fault.Reason(err))
		case plan.Shard == nil || plan.Config == nil:
			return nil, nil, fmt.Errorf("%s is no shard of a run", dir)
		case first == nil:
			first, works = plan, make([][]shardWork, plan.Shard.N)
		}
		if err := sameRun(first, plan, dirs[0], dir); err != nil {
			return nil, nil, err
		}
		attempts := &works[plan.Shard.I-1]
		for _, other := range *attempts {
			if dir == other.dir || shardFolder(dir) != shardFolder(other.dir) {
				return nil, nil, fmt.Errorf("%s and %s are both shard %s: give one of them", other.dir, dir, plan.Shard)
			}
		}
		*attempts = append(*attempts, shardWork{dir, *plan.Shard, plan.Run.Finished != nil, plan.Run.Environment.CPU})
	}
	if works == nil {
		return nil, nil, errors.New("there are no shards")
	}
	var missing, unfinished []int
	for i, attempts := range works {
		done := slices.IndexFunc(attempts, func(w shardWork) bool { return w.finished })
		switch {
		case len(attempts) == 0:
			missing = append(missing, i+1)
		case done < 0:
			unfinished = append(unfinished, i+1)
		default:
			attempts[0], attempts[done] = attempts[done], attempts[0]
		}
	}
	switch n := len(works); {
	case len(missing) > 0:
		err = fmt.Errorf("of %d shards there is no %s: run them first", n, cluster.Spans(missing))
	case len(unfinished) > 0:
		err = fmt.Errorf("of %d shards these are not finished: %s: run them again, they continue", n,
			cluster.Spans(unfinished))
	}
	return first, works, err
}

// wholly is a shard's command without what made it a shard's.
func wholly(command []string) (whole []string) {
	for i := 0; i < len(command); i++ {
		switch word := command[i]; {
		case word == "--shard":
			i++
		case word != "--attempt" && !strings.HasPrefix(word, "--shard="):
			whole = append(whole, word)
		}
	}
	return whole
}

// sameRun holds that two shards are of one run.
func sameRun(a, b *planned, inA, inB string) error {
	list, err := differ(a.Run, b.Run)
	switch {
	case err != nil:
		return err
	case len(list) > 0:
		return fmt.Errorf("%s and %s are of different plans: %s; selfheal compare puts different runs beside each "+
			"other", inA, inB, result.SayFirst(list, "there", "here"))
	case a.Shard.N != b.Shard.N:
		return fmt.Errorf("%s is shard %s, %s shard %s: give the shards of one number, such as DIR/shard-*-of-%d",
			inA, a.Shard, inB, b.Shard, b.Shard.N)
	case a.Shares != b.Shares:
		return fmt.Errorf("%s and %s share the images in different ways, as on processors that round differently: "+
			"run all shards with one folder --out", inA, inB)
	}
	return nil
}

// gather copies the lines of the shards' journals into that of the merge. What two of them have must be the same.
func (r *run) gather(ctx context.Context) error {
	known, seconds := map[string][]uint32{}, map[string]float64{}
	for _, attempts := range r.parts {
		for k, w := range attempts {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := r.gatherOne(w, k == 0, known, seconds); err != nil {
				return fmt.Errorf("%s: %w", w.dir, err)
			}
		}
	}
	for _, o := range r.shares.Networks {
		if i := slices.Index(o.Owner, 0); i >= 0 {
			return fmt.Errorf("no shard has image %d of dataset %s for model %s: run them again, they continue", i,
				o.Dataset, o.Model)
		}
	}
	return nil
}

// gatherOne copies one attempt's, whole if it is the one that is finished. Known are the checksums of what there is,
// by key and image, and seconds how long the work under a key took.
func (r *run) gatherOne(w shardWork, whole bool, known map[string][]uint32, seconds map[string]float64) error {
	from, _, err := journal.Read(w.work()) // what was damaged was made again, or is missed
	if errors.Is(err, fs.ErrNotExist) && !whole {
		return nil // it has just begun
	}
	if err != nil {
		return err
	}
	defer from.Close()
	for _, j := range r.plan.Jobs {
		if r.shares.of(j) == nil {
			r.shares.Networks = append(r.shares.Networks, owned{j.Suite.Dataset, j.Model.Name,
				make([]int, r.record.Datasets[j.Suite.Dataset].N)})
		}
		owner := r.shares.of(j)
		err := from.Block(imagesKey(j)).Read(func(text []byte) error {
			var one unit[imageName]
			err := json.Unmarshal(text, &one)
			if i := one.Image; err == nil && i >= 0 && i < len(owner) {
				if owner[i] != 0 && owner[i] != w.shard.I {
					return fmt.Errorf("image %d is shard %d's too", one.Value.ID, owner[i])
				}
				owner[i] = w.shard.I
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for key, block := range from.Blocks() {
		if name, own := strings.CutPrefix(key, savedKey("")); own { // of the shard's own files
			if sum, ok := savedAs(block); ok {
				r.sums[filepath.Join(w.work(), name)] = sum
			}
			continue
		}
		if err := r.take(block, key, known, seconds); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// line is what tells a line of one image from others.
type line struct {
	Image   *int            `json:"i"`
	Seconds float64         `json:"t"`
	Value   json.RawMessage `json:"v"`
}

// vectorAt is where an image stands in a file of the attempt's own.
var vectorAt = regexp.MustCompile(`"at":\d+,`)

// facts begin the keys of what every shard knows by itself. There they must agree.
var facts = regexp.MustCompile(`^(classifier|cost) `)

// take copies the lines of a block that are not there yet.
func (r *run) take(block *journal.Block, key string, known map[string][]uint32, seconds map[string]float64) error {
	to, before, most := r.journal.Block(key), seconds[key], 0.0
	n := 0
	for _, d := range r.record.Datasets {
		n = max(n, d.N)
	}
	err := block.Read(func(text []byte) error {
		var one line
		if json.Unmarshal(text, &one) != nil || one.Image == nil { // what is there once
			sum := crc32.ChecksumIEEE(text)
			if !to.Written() {
				known[key] = []uint32{sum}
				return to.Append(json.RawMessage(text))
			}
			if facts.MatchString(key) && known[key][0] != sum {
				return errors.New("other shards have something else: run the shard again with --force")
			}
			return nil
		}
		i := *one.Image
		if i < 0 || i >= n {
			return fmt.Errorf("there is no image %d", i)
		}
		list := known[key]
		if list == nil {
			list = make([]uint32, n)
			known[key] = list
		}
		sum := crc32.ChecksumIEEE(vectorAt.ReplaceAll(one.Value, nil)) | 1
		switch list[i] {
		case 0:
			list[i] = sum
		case sum:
			return nil
		default:
			return fmt.Errorf("image %d is not as another attempt has it: remove one of both", i)
		}
		most = max(most, one.Seconds)
		return to.Append(unit[json.RawMessage]{i, before + one.Seconds, one.Value})
	})
	seconds[key] = before + most
	return err
}

// joined makes a file of adversarial images of those that the shards have saved.
func (r *run) joined(b *bench, name string) error {
	s, at := b.classifiers[0].Shape, make([]int, len(r.parts))
	var failed error
	images := func(yield func([]float32) bool) {
		data, values := make([]byte, 4*s.Size()), make([]float32, s.Size())
		for i := range b.set.Len() {
			k := b.set.owner[i] - 1
			if failed = row(filepath.Join(r.parts[k][0].work(), name), b.set.ownedBy(k+1), at[k], data); failed != nil {
				return
			}
			at[k]++
			for v := range values {
				values[v] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*v:]))
			}
			if !yield(values) {
				return
			}
		}
	}
	for k := range r.parts {
		path := filepath.Join(r.parts[k][0].work(), name)
		if sum, known := r.sums[path]; known && !sum.is(path) {
			return fmt.Errorf("%s: it is damaged: run the shard again with --force", path)
		}
	}
	_, err := r.save(name, []int{b.set.Len(), s.C, s.H, s.W}, images, &failed)
	return err
}

// row reads the i-th of n rows at the end of a file.
func row(path string, n, i int, data []byte) error {
	f, err := input.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, fault.Reason(err))
	}
	defer f.Close()
	head := make([]byte, 10) // its last two bytes say how long the rest of the header is
	info, err := f.Stat()
	if err == nil {
		_, err = f.ReadAt(head, 0)
	}
	begin := int64(len(head)) + int64(binary.LittleEndian.Uint16(head[8:]))
	if err == nil && info.Size() != begin+int64(n)*int64(len(data)) {
		err = errors.New("it is damaged: run the shard again with --force")
	}
	if err == nil {
		_, err = f.ReadAt(data, begin+int64(i)*int64(len(data)))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, fault.Reason(err))
	}
	return nil
}
