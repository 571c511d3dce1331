package shard

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/cluster"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/internal/fault"
	"selfheal/internal/input"
	"selfheal/internal/journal"
	"selfheal/internal/lists"
)

// shardWork is an attempt at a shard. There may be thousands.
type shardWork struct {
	dir      string // its folder
	shard    plan.Shard
	finished bool
	cpu      string
}

func (w shardWork) work() string { return filepath.Join(w.dir, folder.WorkFolder) }

// Find lists the folders of shards, and of attempts at them, in a folder. The folder may itself be one.
func Find(dir string) (found []string) {
	for _, pattern := range []string{"", attemptPrefix + "*", "shard-*-of-*", "shard-*-of-*/" + attemptPrefix + "*"} {
		for _, name := range within(dir, pattern, folder.WorkFolder, folder.PlanFile) {
			// a damaged one is listed, so that the merge names it
			if p, err := folder.ReadPlan(name); err != nil || p.Shard != nil {
				found = append(found, filepath.Dir(filepath.Dir(name)))
			}
		}
	}
	return found
}

// within lists the files and folders in a folder whose paths there match a pattern. The folder's own name is none.
func within(dir string, pattern ...string) []string {
	names, _ := fs.Glob(os.DirFS(filepath.Clean(dir)), path.Join(pattern...))
	return lists.Map(names, func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) })
}

// Merge makes the results of a plan from its shards' journals and writes them to o.Out, as a run of the whole plan
// would. It opens no file that the config names. It uses Out, Force, Progress and Report of o.
func Merge(ctx context.Context, dirs []string, o run.Options) (*result.File, error) {
	first, works, err := shardWorks(dirs)
	if err != nil {
		return nil, err
	}
	p, err := plan.New(first.Config)
	if err != nil {
		return nil, err
	}
	m := &merge{record: first.Run, progress: cmp.Or(o.Progress, &progress.Progress{}), plan: p, parts: works,
		sums: map[string]folder.Checksum{}, owners: map[folder.Key][]int{}}
	m.record.Finished, m.record.Cells, m.record.Command = nil, []result.Cell{}, wholly(m.record.Command)
	m.machines()
	out, err := folder.Open(o.Out, o.Rule)
	if err != nil {
		return nil, err
	}
	defer out.Unlock()
	if err = m.mayWrite(out, o.Force); err == nil {
		err = out.Claim()
	}
	if err != nil {
		return nil, err
	}
	if m.journal, err = out.Begin(folder.Planned{Run: m.record}); err != nil {
		return nil, err
	}
	defer m.journal.Close()
	if err := m.gather(ctx); err != nil {
		return nil, err
	}
	m.journal.Complete = true
	return m.record, run.Results(ctx, p, m.record, m.progress, out, m.journal, m, o.Report)
}

// merge is a source of results: the shards' journals, gathered in one.
type merge struct {
	record   *result.File
	progress *progress.Progress
	plan     *plan.Plan
	parts    [][]shardWork              // attempts, by the shard's number
	sums     map[string]folder.Checksum // checksums of files that shards have saved, by path
	owners   map[folder.Key][]int       // the shard of each image of a network
	journal  *folder.Journal
}

// mayWrite returns an error if results in the output folder would be lost.
func (m *merge) mayWrite(out *folder.Folder, force bool) error {
	held := []*result.File{out.Old}
	if p, err := folder.ReadPlan(out.Work(folder.PlanFile)); err == nil {
		if held = append(held, p.Run); p.Shard != nil {
			return fmt.Errorf("%s is the folder of shard %s: choose another --out", out.Dir, p.Shard)
		}
	}
	for _, f := range held {
		if f == nil || force {
			continue
		}
		if err := out.Holds(f, m.record); err != nil {
			return err
		}
	}
	return nil
}

func (m *merge) machines() {
	e := &m.record.Environment
	for _, w := range slices.Concat(m.parts...) {
		e.CPUs = lists.Once(e.CPUs, w.cpu)
	}
	if len(e.CPUs) == 1 {
		e.CPUs = nil
		return
	}
	m.progress.Report(progress.ProcessorsDiffer{CPUs: e.CPUs})
}

// shardWorks reads the shards' plans, by number, and returns an error unless they are all the shards of one plan. A
// finished attempt at a shard comes before others.
func shardWorks(dirs []string) (first *folder.Planned, works [][]shardWork, err error) {
	for _, dir := range dirs {
		p, err := folder.ReadPlan(filepath.Join(dir, folder.WorkFolder, folder.PlanFile))
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("%s: %w", dir, fault.Reason(err))
		case p.Shard == nil || p.Config == nil:
			return nil, nil, fmt.Errorf("%s is no shard of a run", dir)
		case first == nil:
			first, works = p, make([][]shardWork, p.Shard.N)
		}
		if err := sameRun(first, p, dirs[0], dir); err != nil {
			return nil, nil, err
		}
		attempts := &works[p.Shard.I-1]
		for _, other := range *attempts {
			if dir == other.dir || shardFolder(dir) != shardFolder(other.dir) {
				return nil, nil, fmt.Errorf("%s and %s are both shard %s: give one of them", other.dir, dir, p.Shard)
			}
		}
		*attempts = append(*attempts, shardWork{dir, *p.Shard, p.Run.Finished != nil, p.Run.Environment.CPU})
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

// wholly returns a shard's command without the shard's flags.
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

func sameRun(a, b *folder.Planned, inA, inB string) error {
	list := folder.Differ(a.Run, b.Run)
	switch {
	case len(list) > 0:
		return fmt.Errorf("%s and %s are of different plans: %s; selfheal compare puts different runs beside each "+
			"other", inA, inB, result.SayFirst(list, "there", "here"))
	case a.Shard.N != b.Shard.N:
		return fmt.Errorf("%s is shard %s, %s shard %s: give the shards of one number, such as DIR/shard-*-of-%d",
			inA, a.Shard, inB, b.Shard, b.Shard.N)
	}
	return nil
}

// gather copies the lines of the shards' journals into the merge's. Lines for the same image must be equal.
func (m *merge) gather(ctx context.Context) error {
	known, seconds := map[string][]uint32{}, map[string]float64{}
	for _, attempts := range m.parts {
		for k, w := range attempts {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := m.gatherOne(w, k == 0, known, seconds); err != nil {
				return fmt.Errorf("%s: %w", w.dir, err)
			}
		}
	}
	for _, j := range m.plan.Jobs {
		if i := slices.Index(m.owners[run.ImagesKey(j)], 0); i >= 0 {
			return fmt.Errorf("no shard has image %d of dataset %s for model %s: run them again, they continue", i,
				j.Suite.Dataset, j.Model.Name)
		}
	}
	return nil
}

// gatherOne copies one attempt's journal, whole if the attempt is the finished one. known are the checksums of the
// lines gathered so far, by key and image; seconds are the times of the work under each key.
func (m *merge) gatherOne(w shardWork, whole bool, known map[string][]uint32, seconds map[string]float64) error {
	from, _, err := journal.Read(w.work()) // damaged lines were made again, or are reported as missing
	if errors.Is(err, fs.ErrNotExist) && !whole {
		return nil // the attempt has just begun
	}
	if err != nil {
		return err
	}
	defer from.Close()
	for _, j := range m.plan.Jobs {
		key := run.ImagesKey(j)
		if m.owners[key] == nil {
			m.owners[key] = make([]int, m.record.Datasets[j.Suite.Dataset].N)
		}
		owner, taken := m.owners[key], error(nil)
		err := folder.Each(&folder.Journal{Journal: from}, key, func(i int, _ float64, name open.ImageName) {
			if i < 0 || i >= len(owner) {
				return
			}
			if owner[i] != 0 && owner[i] != w.shard.I {
				taken = fmt.Errorf("image %d is shard %d's too", name.ID, owner[i])
			}
			owner[i] = w.shard.I
		})
		if err = cmp.Or(err, taken); err != nil {
			return err
		}
	}
	for _, block := range from.Blocks() {
		key, err := folder.ParseKey(block.Key)
		if err != nil {
			return errors.New("the journal is damaged: run the shard again with --force")
		}
		if key.Of == folder.Saved { // files that only the shard needs
			if sum, ok := folder.SavedAs(block); ok {
				m.sums[filepath.Join(w.work(), key.Part)] = sum
			}
			continue
		}
		if err := m.take(block, key, known, seconds); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

type line struct {
	Image   *int            `json:"i"`
	Seconds float64         `json:"t"`
	Value   json.RawMessage `json:"v"`
}

// vectorAt matches an image's position in a file of the attempt's own.
var vectorAt = regexp.MustCompile(`"at":\d+,`)

// take copies the lines of a block that are not there yet.
func (m *merge) take(block *journal.Block, k folder.Key, known map[string][]uint32, seconds map[string]float64) error {
	key := k.JSON()
	to, before, most := m.journal.Block(k), seconds[key], 0.0
	n := 0
	for _, d := range m.record.Datasets {
		n = max(n, d.N)
	}
	err := block.Read(func(text []byte) error {
		var one line
		if json.Unmarshal(text, &one) != nil || one.Image == nil { // it belongs to no image
			sum := crc32.ChecksumIEEE(text)
			if !to.Written() {
				known[key] = []uint32{sum}
				return to.Append(json.RawMessage(text))
			}
			fact := slices.ContainsFunc(folder.Facts, func(of string) bool { return strings.HasPrefix(k.Of, of) })
			if fact && known[key][0] != sum {
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
		return to.Append(line{&i, before + one.Seconds, one.Value})
	})
	seconds[key] = before + most
	return err
}

// Adversarial joins the rows that the shards have saved.
func (m *merge) Adversarial(b *open.Job, name string, _ func(i int) ([]float32, error),
	row func([]float32) bool) error {
	for k := range m.parts {
		path := filepath.Join(m.parts[k][0].work(), name)
		if sum, known := m.sums[path]; known && !sum.Is(path) {
			return fmt.Errorf("%s: it is damaged: run the shard again with --force", path)
		}
	}
	size, at := b.Classifiers[0].Shape.Size(), make([]int, len(m.parts))
	data, values := make([]byte, 4*size), make([]float32, size)
	for i := range b.Set.Len() {
		k := b.Set.Owner(i)
		path := filepath.Join(m.parts[k-1][0].work(), name)
		if err := readRow(path, b.Set.OwnedBy(k), at[k-1], data); err != nil {
			return err
		}
		at[k-1]++
		if _, err := binary.Decode(data, binary.LittleEndian, values); err != nil || !row(values) {
			return err
		}
	}
	return nil
}

// Open returns a job with names in place of images and networks.
func (m *merge) Open(_ context.Context, j *plan.Job) (*open.Job, error) {
	b := &open.Job{Job: j, Recipes: map[plan.Trial]attacks.Recipe{}}
	for _, defense := range j.Defenses() {
		info, err := folder.Once(m.journal, run.InfoKey(j, defense), nothing[open.Info])
		if err != nil {
			return nil, err
		}
		b.Classifiers = append(b.Classifiers, open.Classifier{Info: info})
	}
	names := make([]open.ImageName, m.record.Datasets[j.Suite.Dataset].N)
	if err := folder.Each(m.journal, run.ImagesKey(j), func(i int, _ float64, name open.ImageName) {
		if i >= 0 && i < len(names) {
			names[i] = name
		}
	}); err != nil {
		return nil, err
	}
	b.Set = open.Named(names, m.owners[run.ImagesKey(j)])
	for _, t := range j.Trials {
		var err error
		if b.Recipes[t], err = t.Recipe(b.Classifiers[0].Classes, b.Classifiers[0].Shape); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func nothing[T any]() (v T, err error) { return v, nil }

// Oracle returns an oracle that knows the cost of its answers and gives none.
func (m *merge) Oracle(b *open.Job, c open.Classifier, mode string) (*open.Oracle, error) {
	cost, err := folder.Once(m.journal, run.CostKey(b.Job, c.Defense(), mode), nothing[control.Cost])
	return &open.Oracle{Oracle: closed{c.Info}, Of: c, Cost: cost, Close: func() {}}, err
}

// closed is the oracle of a network that is not open.
type closed struct{ info open.Info }

func (c closed) Shape() attacks.Shape { return c.info.Shape }
func (c closed) Classes() int         { return c.info.Classes }

func (c closed) Logits(context.Context, []float32, []float32) error {
	return folder.Lacks{What: c.info.String()}
}

func (c closed) Gradient(context.Context, []float32, attacks.Loss, int, int, *attacks.Evaluation) error {
	return folder.Lacks{What: c.info.String()}
}

// readRow reads the i-th of n rows at the end of a file.
func readRow(path string, n, i int, data []byte) error {
	f, err := input.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, fault.Reason(err))
	}
	defer f.Close()
	head := make([]byte, 10) // its last two bytes have the length of the rest
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
	return fault.At(path, fault.Reason(err))
}
