package dataset

import (
	"fmt"
	"slices"
	"testing"
	"testing/fstest"

	"selfheal/harness/result"
	"selfheal/internal/must"
)

// sorted returns an archive of 40 images of class 0, 40 of class 1 and 3 of class 2, in this order.
func sorted(t testing.TB) Spec {
	labels := make([]int64, 83)
	for i := range labels {
		labels[i] = int64(i / 40)
	}
	return Spec{Format: "npz", Path: string(archive(t, npyOf("|u1", "83, 1, 1, 1", make([]byte, 83)), ints(labels...)))}
}

// draw opens a set whose path says what it contains.
func draw(t testing.TB, spec Spec, limit int) *Dataset {
	t.Helper()
	fsys := files(map[string][]byte{"f": []byte(spec.Path)})
	spec.Path = "f"
	return must.Get(Open(spec, fsys, limit))(t)
}

func counts(d *Dataset) (n [3]int) {
	for i := range d.Len() {
		n[d.Label(i)]++
	}
	return n
}

func TestSample(t *testing.T) {
	spec := sorted(t)
	whole := func(s result.Sample) []int {
		spec.Sample = &s
		return draw(t, spec, 0).ids
	}
	for n, want := range map[int][3]int{2: {1, 1, 0}, 3: {1, 1, 1}, 9: {3, 3, 3}, 20: {8, 9, 3}, 500: {40, 40, 3}} {
		spec.Sample = &result.Sample{N: n, PerClass: true}
		if got := counts(draw(t, spec, 0)); got != want {
			t.Errorf("%d by class: %v, want %v", n, got, want)
		}
	}
	all := whole(result.Sample{N: 500, PerClass: true})
	if got := whole(result.Sample{N: 9, PerClass: true}); !slices.Equal(got, all[:9]) {
		t.Errorf("a sample of 9 is %v, not the first of %v", got, all)
	}
	// An image's position depends on its id and the seed alone. These never change.
	for _, c := range []struct {
		sample result.Sample
		want   []int
	}{
		{result.Sample{N: 6, PerClass: true}, []int{3, 44, 82, 38, 60, 81}},
		{result.Sample{N: 6, PerClass: true, Seed: 1}, []int{59, 32, 81, 48, 0, 82}},
		{result.Sample{N: 6}, []int{3, 38, 44, 33, 60, 79}},
	} {
		if got := whole(c.sample); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.sample, got, c.want)
		}
	}
	spec.Sample, spec.Indices = &result.Sample{N: 2, PerClass: true}, []int{3, 2, 1, 82}
	if d := draw(t, spec, 0); counts(d) != [3]int{1, 0, 1} {
		t.Errorf("of indices: %v", d.ids)
	}
	spec.Sample, spec.Indices, spec.Limit = &result.Sample{N: 40, PerClass: true}, nil, 5
	if d := draw(t, spec, 4); !slices.Equal(d.ids, all[:4]) || d.LeftOut().Classes != 0 {
		t.Errorf("with limits: %v, %+v", d.ids, d.LeftOut())
	}
}

// An image's identity is the same in every part of a set, and different with another label.
func TestImages(t *testing.T) {
	spec := sorted(t)
	all := draw(t, spec, 0).Images()
	if all.IDs != nil || len(all.Checksums) != 8*83 {
		t.Fatalf("%+v", all)
	}
	spec.Indices = []int{0, 1, 2}
	if first := draw(t, spec, 0).Images(); first.IDs != nil || first.Checksums != all.Checksums[:24] {
		t.Errorf("the first three are %+v", first)
	}
	spec.Indices = nil
	spec.Sample = &result.Sample{N: 6, PerClass: true}
	some := draw(t, spec, 0).Images()
	if len(some.IDs) != 6 {
		t.Fatalf("%+v", some)
	}
	for i, id := range some.IDs {
		if some.Checksums[8*i:8*i+8] != all.Checksums[8*id:8*id+8] {
			t.Errorf("image %d of a sample is not that of the set", id)
		}
	}
	if all.Checksums[:8] == all.Checksums[8*40:8*41] { // both are black
		t.Error("images of two classes have one checksum")
	}
}

// A limit takes the first images if classes are mixed, and as many of each class if the labels never fall.
func TestLimit(t *testing.T) {
	of := func(labels ...int64) Spec {
		n := len(labels)
		return Spec{Format: "npz", Path: string(archive(t, npyOf("|u1", fmt.Sprintf("%d, 1, 1, 1", n), make([]byte, n)),
			ints(labels...)))}
	}
	with := func(spec Spec, limit int, indices ...int) Spec {
		spec.Limit, spec.Indices = limit, indices
		return spec
	}
	whole, seeded := sorted(t), sorted(t)
	whole.Sample = &result.Sample{N: 83, PerClass: true}
	even, seed := draw(t, whole, 0).ids, result.Sample{N: 50, Seed: 4}
	seeded.Sample = &seed
	sample := draw(t, seeded, 0).ids
	for _, c := range []struct {
		name   string
		spec   Spec
		option int
		want   []int
		spread bool
	}{
		{"a sorted set", with(sorted(t), 20), 0, even[:20], true},
		{"a sorted set and --limit", sorted(t), 20, even[:20], true},
		{"the tighter of two limits", with(sorted(t), 20), 7, even[:7], true},
		{"the config's is the tighter", with(sorted(t), 7), 20, even[:7], true},
		{"fewer images than classes", sorted(t), 2, even[:2], true},
		{"a limit that cuts nothing", with(of(0, 0, 1, 1), 4), 9, []int{0, 1, 2, 3}, false},
		{"one class", with(of(1, 1, 1, 1), 2), 0, []int{0, 1}, false},
		{"a label that falls once", with(of(0, 0, 0, 1, 1, 0), 2), 0, []int{0, 1}, false},
		{"indices that keep the order", with(of(2, 0, 0, 0, 1, 1, 0), 2, 1, 3, 5), 0, []int{3, 5}, true},
		{"indices that mix the classes", with(sorted(t), 2, 82, 1, 2, 50), 0, []int{82, 1}, false},
		{"a sample", seeded, 9, sample[:9], false},
	} {
		d := draw(t, c.spec, c.option)
		if spread := d.Sample() != nil && *d.Sample() != seed; !slices.Equal(d.ids, c.want) || spread != c.spread {
			t.Errorf("%s: %v, want %v; sample %+v", c.name, d.ids, c.want, d.Sample())
		}
		if d.Sample() != nil && c.spread && *d.Sample() != (result.Sample{N: len(c.want), PerClass: true}) {
			t.Errorf("%s: the results would say %+v", c.name, d.Sample())
		}
	}
}

// A limit that drops classes for which it had room is noticed, with mixed classes or with a sample.
func TestDroppedClasses(t *testing.T) {
	sortedBut := sorted(t)
	for i := range 83 {
		sortedBut.Indices = append(sortedBut.Indices, i)
	}
	sortedBut.Indices[81], sortedBut.Indices[0] = 0, 81 // so that the first label falls
	for _, c := range []struct{ limit, option, want int }{
		{0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {40, 0, 1}, {41, 0, 0}, {0, 3, 1}, {81, 5, 1}, {83, 0, 0},
	} {
		spec := sortedBut
		spec.Limit = c.limit
		if got := draw(t, spec, c.option).LeftOut().Classes; got != c.want {
			t.Errorf("limit %d and --limit %d drop %d classes, want %d", c.limit, c.option, got, c.want)
		}
	}
	if got := draw(t, sorted(t), 5).LeftOut().Classes; got != 0 {
		t.Errorf("a limit on a sorted set drops %d classes", got)
	}
}

// Files in a folder that are not images are counted and named, except hidden ones and notes.
func TestLeftOutFiles(t *testing.T) {
	fsys := fstest.MapFS{"set/a/1.png": {Data: pngFile(t, picture(1))}, "set/notes.txt": {}, "set/more": {},
		"set/.hidden": {}, "set/a/labels.CSV": {}, "set/a/.DS_Store": {}, "set/a/inner/2.png": {}, "set/a/3.tiff": {}}
	for i := range 10 {
		fsys[fmt.Sprintf("set/b/%d.gif", i)] = &fstest.MapFile{}
	}
	d := must.Get(Open(Spec{Format: "image-folder", Path: "set"}, fsys, 0))(t)
	left := d.LeftOut()
	if want := []string{"more", "a/3.tiff", "a/inner", "b/0.gif"}; left.Files != 13 || len(left.Names) != 10 ||
		!slices.Equal(left.Names[:4], want) {
		t.Errorf("%+v", left)
	}
}
