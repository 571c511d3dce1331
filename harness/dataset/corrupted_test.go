package dataset

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"testing/fstest"

	"selfheal/internal/must"
)

// cifarC returns a folder of the authors' form, with two images a severity; each value is 10·severity + the image's
// index.
func cifarC() fstest.MapFS {
	var levels []byte
	for i := range 10 {
		levels = append(levels, bytes.Repeat([]byte{byte(10*(i/2+1) + i%2)}, 12)...)
	}
	fog := &fstest.MapFile{Data: npyOf("|u1", "10, 2, 2, 3", levels)}
	return fstest.MapFS{"c/fog.npy": fog, "c/snow.npy": fog, "c/saturate.npy": fog,
		"c/labels.npy": {Data: npyOf("|u1", "10,", []byte{4, 9, 4, 9, 4, 9, 4, 9, 4, 9})}}
}

// imageNetC has the same images, weather in a folder of its own, as in the authors' archives.
func imageNetC(t testing.TB) fstest.MapFS {
	fsys := fstest.MapFS{}
	for _, c := range []string{"weather/fog", "weather/snow", "saturate"} {
		for severity := 1; severity <= 5; severity++ {
			for i, class := range []string{"n01", "n02"} {
				fsys[fmt.Sprintf("c/%s/%d/%s/a.png", c, severity, class)] = &fstest.MapFile{
					Data: pngFile(t, picture(uint8(10*severity+i)))}
			}
		}
	}
	return fsys
}

// A split names a corruption and a severity, a corruption, or all that count.
func TestCorruptedSets(t *testing.T) {
	for _, format := range []string{"cifar10-c", "imagenet-c"} {
		fsys, labels := cifarC(), []int{4, 9}
		if format == "imagenet-c" {
			fsys, labels = imageNetC(t), []int{0, 1}
		}
		if got := must.Get(Guess(fsys, "c"))(t); got != format {
			t.Errorf("guessed %s, it is %s", got, format)
		}
		seen := map[string][]float32{}
		for split, n := range map[string]int{"fog/3": 2, "fog/1": 2, "fog": 10, "all": 20, "saturate/5": 2} {
			d := must.Get(Open(of(format, "c", split, nil), fsys, 0))(t)
			if d.Len() != n || d.Label(n-1) != labels[1] || d.Label(n-2) != labels[0] {
				t.Errorf("%s, %s: %d images, the last with label %d", format, split, d.Len(), d.Label(n-1))
			}
			for i := range d.Len() {
				_, pixels, _, err := d.Image(i)
				must.Do(t, err)
				seen[split] = append(seen[split], pixels...)
			}
			d.Close()
		}
		size := len(seen["fog/3"])
		if !slices.Equal(seen["fog"][2*size:3*size], seen["fog/3"]) ||
			!slices.Equal(seen["all"][:5*size], seen["fog"]) || slices.Equal(seen["fog/1"], seen["fog/3"]) {
			t.Errorf("%s: the severities are not in their places", format)
		}
	}
}

// A wrong layout is answered in a line that says what to do.
func TestCorruptedSetErrors(t *testing.T) {
	without := func(name string) fstest.MapFS {
		fsys := cifarC()
		delete(fsys, name)
		return fsys
	}
	with := func(name string, data []byte) fstest.MapFS {
		fsys := cifarC()
		fsys[name] = &fstest.MapFile{Data: data}
		return fsys
	}
	for _, c := range []struct {
		format, path, split string
		fsys                fstest.MapFS
		says                string
	}{
		{"cifar10-c", "c", "", cifarC(),
			"it is a corruption and a severity, as fog/3, a corruption, or all; there are: fog"},
		{"cifar10-c", "c", "rain/3", cifarC(), `there is no corruption "rain"`},
		{"cifar10-c", "c", "fog/6", cifarC(), `there is no severity "6", they go from 1 to 5`},
		{"cifar10-c", "c/fog.npy", "fog/1", cifarC(), "it is no folder"},
		{"cifar10-c", "c", "fog/1", without("c/labels.npy"), "it has no labels.npy"},
		{"cifar10-c", "c", "fog/1", with("c/fog.npy", npyOf("|u1", "9, 2, 2, 3", make([]byte, 108))),
			"fog.npy: 9 images are not as many of each of the 5 severities"},
		{"cifar10-c", "c", "fog/1", with("c/labels.npy", npyOf("|u1", "3,", make([]byte, 3))), "labels.npy 3 labels"},
		{"cifar10-c", "c", "all", with("c/snow.npy", npyOf("|u1", "5, 2, 2, 3", make([]byte, 60))), "snow.npy"},
		{"cifar10-c", "c", "fog/1", with("c/fog.npy", floats(5, 1, 1, 3)(make([]float32, 15)...)),
			"the authors' are uint8"},
		{"imagenet-c", "c", "fog", cifarC(), "it holds no folders such as fog/3/CLASS"},
		{"imagenet-c", "c", "rain", imageNetC(t), "there are: fog, saturate, snow"},
	} {
		_, err := Open(of(c.format, c.path, c.split, nil), c.fsys, 0)
		must.Refuse(t, err, c.says)
	}
}

// Any bytes as a corruption's array and as the labels, and any split.
func FuzzCorrupted(f *testing.F) {
	set := cifarC()
	f.Add(set["c/fog.npy"].Data, set["c/labels.npy"].Data, "fog/3")
	f.Add(npyOf("|u1", "5, 1, 1, 3", make([]byte, 15)), npyOf("<i8", "1,", make([]byte, 8)), "all")
	f.Add([]byte("x"), []byte("y"), "fog/9")
	im := pngFile(f, picture(1))
	f.Fuzz(func(t *testing.T, images, labels []byte, split string) {
		fsys := fstest.MapFS{"c/fog.npy": {Data: images}, "c/labels.npy": {Data: labels}, "i/fog/1/a/x.png": {Data: im}}
		for path, format := range map[string]string{"c": "cifar10-c", "i": "imagenet-c"} {
			walk(t, of(format, path, split, nil), fsys)
		}
	})
}
