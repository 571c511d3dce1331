package dataset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"selfheal/harness/result"
	"selfheal/internal/must"
)

// Arrays are found under their common names. The first pixel of image i is i, its label i mod 3.
func TestArrayNames(t *testing.T) {
	for _, c := range []struct {
		path, split string
		keys        *result.Keys
		images      []int
	}{
		{"keras.npz", "", nil, []int{4, 5}}, {"keras.npz", "train", nil, []int{0, 1, 2, 3}},
		{"keras.npz", "", &result.Keys{X: "x_train", Y: "y_train"}, []int{0, 1, 2, 3}},
		{"medmnist.npz", "train", nil, []int{0, 1, 2, 3}}, {"medmnist.npz", "val", nil, []int{4, 5}},
		{"positional.npz", "", nil, []int{3, 4}}, {"own.npz", "", nil, []int{5, 6, 7}},
		{"several.npz", "", &result.Keys{X: "a", Y: "classes"}, []int{5, 6, 7}},
		{"pairs", "", nil, []int{0, 1, 2}}, {"pairs/cifar10.1_v6_data.npy", "", nil, []int{0, 1, 2}},
		{"files", "", nil, []int{7, 8, 9}}, {"files", "train", nil, []int{0, 1, 2}},
		{"files/x_train.npy", "", nil, []int{0, 1, 2}},
	} {
		d, err := Open(of("npz", "numpy/"+c.path, c.split, c.keys), samples, 0)
		if err != nil {
			t.Error(err)
			continue
		}
		var got []int
		for i := range d.Len() {
			_, pixels, label := must.Get3(d.Image(i))(t)
			if got = append(got, int(pixels[0]*255+0.5)); label != got[i]%3 {
				t.Errorf("%s: image %d has label %d", c.path, got[i], label)
			}
		}
		if !slices.Equal(got, c.images) || d.Shape() != [3]int{3, 4, 5} {
			t.Errorf("%s %s: images %v, want %v; shape %v", c.path, c.split, got, c.images, d.Shape())
		}
		must.Do(t, d.Close())
	}
	for _, name := range []string{"numpy/pairs", "numpy/files/x_train.npy", "numpy/own.npz"} {
		if got := must.Get(Guess(samples, name))(t); got != "npz" {
			t.Errorf("%s is guessed to be %s", name, got)
		}
	}
}

func TestArrayErrors(t *testing.T) {
	const toScale = "pixels must lie in [0,1], but those of the first images run from "
	for _, c := range []struct {
		path, split string
		keys        *result.Keys
		want        string
	}{
		{"medmnist.npz", "", nil, "it has no split test; choose one by split: train, val"},
		{"own.npz", "test", nil, "split: none of its arrays is one of test; it holds: pictures, classes, weights"},
		{"several.npz", "", nil,
			"which of its arrays are images and labels? it holds: a, b, classes; name them by keys"},
		{"own.npz", "", &result.Keys{X: "x", Y: "classes"},
			"keys: there is no array x; it holds: pictures, classes, w"},
		{"keras.npz", "test", &result.Keys{X: "x_test", Y: "y_test"},
			"split: keys name the arrays, so there is no split"},
		{"files/x_test.npy", "test", nil,
			"split: the path names the images, so there is no split to choose; remove it"},
		{"files/absent.npy", "", nil, "numpy/files/absent.npy does not exist"},
		{"scaled-levels.npz", "", nil,
			"holds 2.1428573 at value 1; " + toScale + "0 to 255, like levels of 8 bits: save them"},
		{"scaled-halves.npz", "", nil, toScale + "-1 to 1, as if scaled to [-1,1]: save (x + 1)/2 and give the model"},
		{"scaled-imagenet.npz", "", nil,
			toScale + "-2.118 to 2.64, as if normalised by ImageNet's mean and std: save " +
				"x·std + mean, and give the model preprocess: {mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.22"},
		{"scaled-other.npz", "", nil, toScale + "-1.7 to 1.3, as if normalised by a mean and std: save x·std + mean"},
		{"scaled-wild.npz", "", nil, toScale + "0 to 1000, which is no scale that is known"},
	} {
		_, err := Open(of("npz", "numpy/"+c.path, c.split, c.keys), samples, 0)
		if must.Refuse(t, err, "data set numpy/"+c.path+" (npz): ", c.want); err == nil {
			t.Error(c.path)
		}
	}
}

// An archive of three arrays of any names.
func FuzzArrays(f *testing.F) {
	f.Add("x_train", "y_train", "x_test", floats(2, 1, 1, 2)(0, 1, 0.5, 0), ints(0, 1), "train")
	f.Add("a", "b", "c", npyOf("|u1", "1, 2, 2, 3", make([]byte, 12)), npyOf("|u1", "1,", []byte{2}), "")
	f.Fuzz(func(t *testing.T, a, b, c string, x, y []byte, split string) {
		if strings.ContainsAny(a+b+c, `/\`) || strings.ContainsFunc(a+b+c, hidden) || len(a+b+c) > 100 {
			return // not valid names of files
		}
		fsys := fstest.MapFS{"f": {Data: zipped(t, map[string][]byte{a + ".npy": x, b + ".npy": y, c + ".npy": x})}}
		for i, name := range []string{a, b, c} {
			fsys[fmt.Sprintf("set/%s.npy", name)] = &fstest.MapFile{Data: [][]byte{x, y, x}[i]}
		}
		for _, path := range []string{"f", "set", "set/" + a + ".npy"} {
			walk(t, of("npz", path, split, nil), fsys)
		}
		walk(t, of("npz", "f", "", &result.Keys{X: a, Y: b}), fsys)
	})
}
