package dataset

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestGuess(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{}
	for _, name := range []string{"tiny/wnids.txt", "tiny/val/x", "tiny/train/x", "folder/cat/x", "val/cat/x",
		"a.NPZ", "a.bin", "a.dat"} {
		fsys[name] = &fstest.MapFile{}
	}
	for name, want := range map[string]string{
		"tiny": "tiny-imagenet", "tiny/val": "tiny-imagenet", "tiny/train": "tiny-imagenet",
		"folder": "image-folder", "val": "image-folder", "a.NPZ": "npz", "a.bin": "cifar10-bin",
	} {
		if got, err := Guess(fsys, name); got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]string{"a.dat": "does not follow from its name", "absent": "not exist"} {
		if _, err := Guess(fsys, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
