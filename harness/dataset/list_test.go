package dataset

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"selfheal/internal/must"
)

// TestList reads images by a CSV file, in its order, by labels and by names.
func TestList(t *testing.T) {
	for _, test := range []struct {
		text   string
		names  []string // given
		labels []int
		n      int
		fault  string
	}{
		{text: "b.png,2\n\"sub/a, b.png\",0\n", labels: []int{2, 0}, n: 3},
		{text: "file,label\nb.png,dog\nsub/../b.png,cat\n", labels: []int{1, 0}, n: 2},
		{text: "b.png,1\n", names: []string{"cat", "dog", "owl"}, labels: []int{1}, n: 3},
		{text: "b.png,owl\n", names: []string{"cat", "dog", "owl"}, labels: []int{2}, n: 3},
		{text: "b.png,elk\n", names: []string{"cat", "dog"}, fault: `image 0 has the class "elk", which is not in`},
		{text: "b.png,1\nb.png\n", fault: "a line is an image's path and its label: record on line 2"},
		{text: "none.png,1\n", fault: "set/none.png"},
		{text: "bad.png,1\n", fault: "set/bad.png is no readable PNG"},
		{text: "file,label\n", fault: "it holds no images"},
		{text: "b.png,99999999999\n", labels: []int{0}, n: 1}, // a name
	} {
		fsys := fstest.MapFS{"set/list.csv": {Data: []byte(test.text)}, "set/b.png": {Data: pngFile(t, picture(10))},
			"set/sub/a, b.png": {Data: pngFile(t, picture(20))}, "set/bad.png": {Data: []byte("no picture")}}
		d, err := Open(Spec{Format: must.Get(Guess(fsys, "set/list.csv"))(t), Path: "set/list.csv",
			ClassNames: test.names}, fsys, 0)
		if test.fault != "" {
			if err == nil || !strings.Contains(err.Error(), test.fault) {
				t.Errorf("%q: %v", test.text, err)
			}
			continue
		}
		must.Do(t, err)
		if d.Classes() != test.n || !slices.Equal(d.labels, test.labels) {
			t.Errorf("%q: labels %v of %d classes", test.text, d.labels, d.Classes())
		}
		if d.File(0) != "b.png" {
			t.Errorf("%q: the first image's file is %q", test.text, d.File(0))
		}
		if _, pixels, _, err := d.Image(0); err != nil || pixels[0] != 10./255 {
			t.Errorf("%q: %v, %v", test.text, pixels[0], err)
		}
	}
}
