package dataset

import (
	"bytes"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/parquet-go/parquet-go"

	"selfheal/harness/result"
	"selfheal/internal/must"
)

// listed is a row of a table with its features in one column, wide one with a column for each.
type listed struct {
	Label    int64     `parquet:"label"`
	Features []float32 `parquet:"features,list"`
}

type wide struct {
	Age    int32   `parquet:"age"`
	Target int64   `parquet:"target"`
	Sick   bool    `parquet:"sick"`
	Weight float64 `parquet:"weight"`
}

type named struct {
	Name string `parquet:"name"`
	wide
}

func parquetOf[T any](t *testing.T, rows ...T) *fstest.MapFile {
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b)
	must.Get(w.Write(rows))(t)
	must.Do(t, w.Close())
	return &fstest.MapFile{Data: b.Bytes()}
}

// features returns an archive of rows [4, 3] with 0, 1, 2, … and labels 0, 1, 0, 1.
func features(t *testing.T) *fstest.MapFile {
	x := floats(4, 3)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	return &fstest.MapFile{Data: archive(t, x, ints(0, 1, 0, 1))}
}

func rowFiles(t *testing.T) fstest.MapFS {
	return fstest.MapFS{
		"x.npz": features(t),
		"list.parquet": parquetOf(t, listed{0, []float32{0, 1, 2}}, listed{1, []float32{3, 4, 5}},
			listed{0, []float32{6, 7, 8}}, listed{1, []float32{9, 10, 11}}),
		"ragged.parquet": parquetOf(t, listed{0, []float32{0, 1, 2}}, listed{1, []float32{3}},
			listed{1, []float32{3, 4}}),
		"wide.parquet":  parquetOf(t, wide{20, 0, false, 60.5}, wide{50, 1, true, 80}, wide{80, 0, false, 70}),
		"named.parquet": parquetOf(t, named{"a", wide{20, 0, false, 60.5}}),
	}
}

func inRange(format, path string, low, high []float64, scale ...float64) Spec {
	return Spec{Format: format, Path: path, Shaping: result.Shaping{Layout: result.Flat, Scale: scale,
		Box: &result.Box{Low: low, High: high}}}
}

// Rows of features lie in their box as fractions of each feature's range, whatever file they are in. A file's range
// covers all of its rows.
func TestRowsOfFeatures(t *testing.T) {
	files := rowFiles(t)
	for _, c := range []struct {
		spec Spec
		want [][]float32 // the second row, then the range
	}{
		{inRange("npz", "x.npz", []float64{0}, []float64{16}),
			[][]float32{{3. / 16, 4. / 16, 5. / 16}, {0, 1, 2}, {9, 10, 11}}},
		{inRange("npz", "x.npz", []float64{0, 1, 2}, []float64{32, 33, 34}, 2),
			[][]float32{{6. / 32, 7. / 32, 8. / 32}, {0, 2, 4}, {18, 20, 22}}},
		{inRange("parquet", "list.parquet", []float64{0}, []float64{16}),
			[][]float32{{3. / 16, 4. / 16, 5. / 16}, {0, 1, 2}, {9, 10, 11}}},
		{inRange("parquet", "wide.parquet", []float64{0, 0, 60}, []float64{100, 1, 100}),
			[][]float32{{0.5, 1, 0.5}, {20, 0, 60.5}, {80, 1, 80}}},
	} {
		c.spec.Indices = []int{1}
		d := must.Get(Open(c.spec, files, 0))(t)
		_, x, label := must.Get3(d.Image(0))(t)
		box := must.Get(Range(c.spec, files))(t)
		low, high := must.Get(box.Ends(3))(t)[0], must.Get(box.Ends(3))(t)[1]
		if label != 1 || d.Shape() != [3]int{1, 1, 3} || !slices.Equal(x, c.want[0]) || !slices.Equal(low, c.want[1]) ||
			!slices.Equal(high, c.want[2]) {
			t.Errorf("%s: row %v of shape %v with label %d, from %v to %v", c.spec.Path, x, d.Shape(), label, low, high)
		}
		if !Rows(Spec{Format: c.spec.Format, Path: c.spec.Path}, files) {
			t.Errorf("%s is not taken for rows", c.spec.Path)
		}
		must.Do(t, d.Close())
	}
	for _, path := range []string{"uint8_nchw.npz", "gray.npz"} {
		if Rows(Spec{Format: "npz", Path: path}, os.DirFS("testdata")) {
			t.Errorf("images of %s are taken for rows", path)
		}
	}
}

func TestRowErrors(t *testing.T) {
	files := rowFiles(t)
	zero, ten := []float64{0}, []float64{10}
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{inRange("npz", "x.npz", zero, ten), "feature 2 is 11, outside its box from 0 to 10; widen box (--box)"},
		{inRange("npz", "x.npz", []float64{0, 0, 0, 0}, ten), "low has 4 values, a row 3 features"},
		{inRange("npz", "x.npz", ten, zero), "feature 0 runs from 10 to 0, in float32, which is no range"},
		{inRange("npz", "x.npz", zero, zero), "is not 0, which its box says is its only value"},
		{inRange("npz", "x.npz", zero, ten, 1, 2), "scale has 2 values, a row 3 features"},
		{inRange("parquet", "ragged.parquet", zero, ten), "differs in length"},
		{inRange("parquet", "named.parquet", zero, ten), "columns name hold no numbers; encode or drop them"},
		{inRange("image-folder", ".", zero, ten), "layout: flat is for rows of features: npz, parquet"},
		{Spec{Format: "npz", Path: "x.npz"}, "rows of features take layout: flat"},
	} {
		_, err := Open(c.spec, files, 0)
		must.Refuse(t, err, c.want)
	}
}

// A feature that goes into the box and out again is the feature, or its neighbour where none leads back to it.
func TestWithin(t *testing.T) {
	r, off := rand.New(rand.NewPCG(1, 1)), 0
	const n = 10_000
	for range n {
		low := float32(r.IntN(200) - 100)
		high := low + 1 + float32(r.IntN(1000))
		v := low + (high-low)*r.Float32()
		if r.IntN(2) == 0 {
			v = low + float32(r.IntN(int(high-low)+1))
		}
		x := within(v, low, high)
		if back := outOf(x, low, high-low); x < 0 || x > 1 || back != v {
			off++
			if d := float64(back - v); d > 1e-4 || d < -1e-4 {
				t.Fatalf("%v in [%v, %v] comes back as %v", v, low, high, back)
			}
		}
	}
	if off > n/20 {
		t.Errorf("%d of %d features do not come back", off, n)
	}
}
