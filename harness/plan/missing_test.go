package plan_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"selfheal/harness/plan"
	"selfheal/internal/must"
	"selfheal/internal/testplan"
	"selfheal/models/onnx"
)

// needy needs a file of every kind. Its unused suite needs others.
const needy = `
version: 1
default_suites: [used]
datasets:
  test: {format: cifar10-bin, path: data/cifar/test_batch.bin}
  train: {format: cifar10-bin, path: data/cifar/batches, split: train}
  tiny: {format: tiny-imagenet, path: data/tiny/val}
  own: {format: npz, path: own.npz}
models:
  plain: {path: nets/rn-18-standard/model.onnx}
  robust: {path: nets/wrn-28-8-robust/model.onnx}
  mine: {path: mine.onnx}
  other: {path: other.onnx}
  net: {path: nets/efficientnet-b0-robust/model.onnx}
controls:
  pca: {layers: [{at: last, embedding: {kind: linear, fit: train, rank: 4}}]}
  sized: {layers: [{at: last, embedding: {kind: onnx, path: "e/hidden-{size}.onnx"}},
                   {at: input, embedding: {kind: onnx, path: e/image.onnx}}]}
  again: {layers: [{at: last, embedding: {kind: onnx, path: "e/hidden-{size}.onnx"}}]}
attacks:
  pgd: {kind: pgd, norm: linf, epsilon: 8/255}
suites:
  used: {dataset: test, models: [plain, robust, mine], controls: [pca, sized, again], attacks: [pgd], mode: oblivious}
  unused: {dataset: own, models: [other], attacks: [pgd]}
  tiny: {dataset: tiny, models: [net], attacks: [pgd]}
`

func missingOf(t *testing.T, files fstest.MapFS, suites ...string) []plan.Missing {
	t.Helper()
	return must.Get(plan.New(testplan.Config(t, files, needy, suites)))(t).Missing("fit ")
}

func paths(all []plan.Missing) []string {
	var out []string
	for _, m := range all {
		out = append(out, m.Path)
	}
	return out
}

// Every absent file of the selected suites is listed once, with its users. Existing files are not.
func TestMissing(t *testing.T) {
	all := missingOf(t, fstest.MapFS{})
	want := []string{"data/cifar/test_batch.bin", "data/cifar/batches", "nets/rn-18-standard/model.onnx",
		"nets/wrn-28-8-robust/model.onnx",
		"mine.onnx", "e/hidden-{size}.onnx", "e/image.onnx"}
	if got := paths(all); !slices.Equal(got, want) {
		t.Fatalf("missing are %q, want %q", got, want)
	}
	for i, want := range [][]string{{"test"}, {"train"}, {"plain"}, {"robust"}, {"mine"}, {"sized at last",
		"again at last"}, {"sized at input"}} {
		if !slices.Equal(all[i].For, want) {
			t.Errorf("%s is for %q, want %q", all[i].Path, all[i].For, want)
		}
	}
	for i, want := range []string{
		"",
		"",
		"python3 scripts/zoo/train.py --architecture rn-18 --data cifar10 --folder data/cifar " +
			"--out nets/rn-18-standard",
		"python3 scripts/zoo/train.py --architecture wrn-28-8 --data cifar10 --folder data/cifar --loss trades " +
			"--out nets/wrn-28-8-robust",
		"", "", "",
	} {
		if all[i].Make != want {
			t.Errorf("%s is made by %q, want %q", all[i].Path, all[i].Make, want)
		}
	}
	files := fstest.MapFS{}
	for _, name := range []string{"data/cifar/test_batch.bin", "nets/rn-18-standard/model.onnx", "mine.onnx",
		"e/hidden-64.onnx", "e/image.onnx"} {
		files[name] = &fstest.MapFile{}
	}
	if got, want := paths(missingOf(t, files)), []string{"data/cifar/batches",
		"nets/wrn-28-8-robust/model.onnx"}; !slices.Equal(got, want) {
		t.Errorf("missing are %q, want %q", got, want)
	}
	if got, want := paths(missingOf(t, files, "unused")), []string{"own.npz", "other.onnx"}; !slices.Equal(got, want) {
		t.Errorf("missing are %q, want %q", got, want)
	}
	tiny := missingOf(t, files, "tiny")
	command := "python3 scripts/zoo/train.py --architecture efficientnet-b0 --data tiny-imagenet --folder data/tiny " +
		"--loss trades --out nets/efficientnet-b0-robust"
	if len(tiny) != 2 || tiny[1].Make != command {
		t.Errorf("%+v, want %q", tiny, command)
	}
	text := plan.DescribeMissing(all)
	for _, m := range all {
		if !strings.Contains(text, "\n  "+m.Path+"\n    for "+strings.Join(m.For, ", ")+": ") || !strings.Contains(text,
			m.Make) {
			t.Errorf("%s is not described:\n%s", m.Path, text)
		}
	}
}

// {size} is the number of values of a state, and only a number may stand in its place.
func TestEmbeddingPath(t *testing.T) {
	const pattern = "e/hidden-{size}.onnx"
	if got := plan.EmbeddingPath(pattern, onnx.Shape{onnx.Batch, 8, 2, 2}); got != "e/hidden-32.onnx" {
		t.Error(got)
	}
	if got := plan.EmbeddingPath("plain.onnx", onnx.Shape{onnx.Batch, 8}); got != "plain.onnx" {
		t.Error(got)
	}
	for name, want := range map[string]bool{"e/hidden-32.onnx": false, "e/hidden-.onnx": true, "e/hidden-x.onnx": true,
		"e/32.onnx": true, "e/hidden-32.onnx.part": true, "hidden-32.onnx": true} {
		if plan.Absent(fstest.MapFS{name: &fstest.MapFile{}}, pattern) != want {
			t.Errorf("with %s: absent is not %v", name, want)
		}
	}
}

// Shards have equally many images, up to one, and an image's shard does not depend on the order of the set.
func TestDeal(t *testing.T) {
	t.Parallel()
	ids := make([]int, 1003)
	back := make([]int, len(ids))
	for i := range ids {
		ids[i], back[len(ids)-1-i] = 3*i, 3*i
	}
	for _, n := range []int{1, 2, 7, 32, 2000} {
		owner, other, count := plan.Deal(ids, n), plan.Deal(back, n), make([]int, n+1)
		for i, shard := range owner {
			count[shard]++
			if other[len(ids)-1-i] != shard {
				t.Fatalf("%d shards: image %d is shard %d's, and in another order %d's", n, ids[i], shard,
					other[len(ids)-1-i])
			}
		}
		for shard, c := range count[1:] {
			if c != len(ids)/n && c != len(ids)/n+1 {
				t.Errorf("shard %d of %d has %d images", shard+1, n, c)
			}
		}
	}
}
