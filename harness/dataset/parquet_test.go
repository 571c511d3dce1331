package dataset

import (
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"selfheal/harness/result"
	"selfheal/internal/must"
)

// The hub's files, and those of other writers, hold images of 8×6 pixels: (20 i, 30 y, 30 x) at (y, x) of image i.
func TestParquet(t *testing.T) {
	hub := []string{"cat", "dog", "eel"}
	for _, c := range []struct {
		path, split string
		keys        *result.Keys
		indices     []int
		images      []int // by their numbers
		labels      []int
		names       []string
	}{
		{"hub", "", nil, nil, []int{7, 8, 9, 10, 11}, []int{1, 2, 0, 1, 2}, hub},
		{"hub/data", "test", nil, []int{4, 1}, []int{11, 8}, []int{2, 2}, hub},
		{"hub", "train", nil, nil, []int{0, 1, 2, 3, 4, 5, 6}, []int{0, 1, 2, 0, 1, 2, 0}, hub},
		{"hub", "train", nil, []int{5}, []int{5}, []int{2}, hub},
		{"hub/data/train-00001-of-00002.parquet", "", nil, nil, []int{4, 5, 6}, []int{1, 2, 0}, hub},
		{"zstd.parquet", "", nil, nil, []int{0, 1, 2, 3, 4}, []int{0, 3, 1, 4, 2}, nil},
		{"gzip.parquet", "", nil, []int{3, 0}, []int{3, 0}, []int{4, 0}, nil},
		{"none.parquet", "", &result.Keys{X: "img", Y: "coarse_label"}, []int{4}, []int{4}, []int{0}, nil},
	} {
		spec := of("parquet", c.path, c.split, c.keys)
		spec.Indices = c.indices
		d, err := Open(spec, samples, 0)
		if err != nil {
			t.Error(err)
			continue
		}
		if d.Shape() != [3]int{3, 6, 8} || d.Len() != len(c.images) || !slices.Equal(d.ClassNames(), c.names) {
			t.Errorf("%s: %d images of shape %v, classes %v", c.path, d.Len(), d.Shape(), d.ClassNames())
			continue
		}
		for i := range d.Len() {
			_, pixels, label := must.Get3(d.Image(i))(t)
			at := func(c, y, x int) float32 { return pixels[c*48+y*8+x] }
			if label != c.labels[i] || at(0, 5, 7) != value(byte(20*c.images[i])) || at(1, 4, 3) != value(120) ||
				at(2, 4, 3) != value(90) {
				t.Errorf("%s: image %d has label %d and pixel %v %v %v", c.path, i, label, at(0, 5, 7)*255,
					at(1, 4, 3)*255, at(2, 4, 3)*255)
			}
		}
		must.Do(t, d.Close())
	}
	for _, name := range []string{"hub", "hub/data", "zstd.parquet"} {
		if got := must.Get(Guess(samples, name))(t); got != "parquet" {
			t.Errorf("%s is guessed to be %s", name, got)
		}
	}
}

// Without a split in any name all files are read, in the order of their names.
func TestParquetWithoutSplits(t *testing.T) {
	fsys := fstest.MapFS{"set/readme.txt": {}}
	for to, from := range map[string]string{"a.parquet": "train-00001-of-00002",
		"inner/b.PARQUET": "test-00000-of-00001"} {
		fsys["set/"+to] = &fstest.MapFile{Data: must.Get(fs.ReadFile(samples, "hub/data/"+from+".parquet"))(t)}
	}
	d := must.Get(Open(Spec{Format: "parquet", Path: "set"}, fsys, 0))(t)
	var reds []int
	for i := range d.Len() {
		_, pixels, _ := must.Get3(d.Image(i))(t)
		reds = append(reds, int(pixels[0]*255+0.5)/20)
	}
	if want := []int{4, 5, 6, 7, 8, 9, 10, 11}; !slices.Equal(reds, want) {
		t.Errorf("images %v, want %v", reds, want)
	}
}

func TestParquetErrors(t *testing.T) {
	good := must.Get(fs.ReadFile(samples, "hub/data/test-00000-of-00001.parquet"))(t)
	fsys := fstest.MapFS{"cut.parquet": {Data: good[:len(good)-100]}, "text.parquet": {Data: []byte("label,image\n")},
		"empty/x.txt": {}, "train/train.parquet": {Data: good}, "any/a.parquet": {Data: good}}
	for _, name := range []string{"paths.parquet", "texts.parquet", "none.parquet"} {
		fsys[name] = &fstest.MapFile{Data: must.Get(fs.ReadFile(samples, name))(t)}
	}
	wild := slices.Clone(good)
	for i := 4; i < 60; i++ { // the first page's header
		wild[i] ^= 0xff
	}
	fsys["wild.parquet"] = &fstest.MapFile{Data: wild}
	for _, c := range []struct {
		path, split string
		keys        *result.Keys
		want        string
	}{
		{"absent", "", nil, "absent does not exist"},
		{"empty", "", nil, "it holds no .parquet files"},
		{"text.parquet", "", nil, "it is no Parquet file: "},
		{"cut.parquet", "", nil, "it is no Parquet file: "},
		{"wild.parquet", "", nil, "its rows from 0 can't be read: "},
		{"none.parquet", "test", nil, "split: a single file has no splits; remove it"},
		{"train", "", nil, "it has no files of split test; choose one by split: train"},
		{"any", "dev", nil, "split: no name of its files says dev; remove it"},
		{"texts.parquet", "", nil,
			"it has no column of images called image, img but text, label; name it by keys: {x: IMA"},
		{"texts.parquet", "", &result.Keys{X: "text", Y: "label"},
			"its column label: row 0 holds byte_array, not the number of a class"},
		{"none.parquet", "", &result.Keys{X: "img", Y: "y"},
			"it has no column of labels called y but img.bytes, img.path, fine_label, coarse_label; na"},
		{"none.parquet", "", &result.Keys{X: "fine_label", Y: "fine_label"},
			"row 0 holds int64, not an image"},
		{"paths.parquet", "", nil, "row 0 holds nothing, not an image; files with only the paths"},
	} {
		refused(t, of("parquet", c.path, c.split, c.keys), fsys, c.want)
	}
}

func FuzzParquet(f *testing.F) {
	for _, name := range []string{"hub/data/test-00000-of-00001.parquet", "zstd.parquet", "gzip.parquet",
		"none.parquet"} {
		f.Add(must.Get(fs.ReadFile(samples, name))(f))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		walk(t, Spec{Format: "parquet", Path: "f"}, fstest.MapFS{"f": {Data: data}})
	})
}
