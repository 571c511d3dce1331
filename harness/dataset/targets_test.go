package dataset

import (
	"testing"

	"selfheal/internal/must"
)

// Targets are read from text and from a NumPy array, belong to images by id, and are part of the set's hash and of its
// digest.
func TestTargetFiles(t *testing.T) {
	fsys := files(map[string][]byte{"test_batch.bin": cifarFile(4, 1), "t.txt": []byte("3\n1\n 9\r\n0\n"),
		"other.txt": []byte("3\n1\n9\n2\n"), "few.txt": []byte("1\n"), "words.txt": []byte("1\ncat\n3\n4\n"),
		"far.txt": []byte("1\n10\n3\n4\n"), "t.npy": npyOf("|u1", "4,", []byte{3, 1, 9, 0}),
		"part.npy": npyOf("<f4", "1,", make([]byte, 4))})
	spec := of("cifar10-bin", "test_batch.bin", "", nil)
	spec.Indices = []int{3, 1, 2}
	plain := must.Get(Open(spec, fsys, 0))(t)
	hashes := map[string]bool{plain.SHA256(): true}
	var digest Digest
	for _, name := range []string{"t.txt", "t.npy"} {
		spec.Targets = name
		d := must.Get(Open(spec, fsys, 0))(t)
		if d.Target(0) != 0 || d.Target(1) != 1 || d.Target(2) != 9 {
			t.Errorf("%s: targets %d, %d, %d, want 0, 1, 9", name, d.Target(0), d.Target(1), d.Target(2))
		}
		if d.Images().Checksums == plain.Images().Checksums {
			t.Errorf("%s: the checksums leave the targets out", name)
		}
		hashes[d.SHA256()], digest = true, d.Digest()
	}
	if len(hashes) != 2 {
		t.Errorf("%d hashes, want one with targets and one without", len(hashes))
	}
	spec.Targets = "other.txt"
	if d := must.Get(OpenKnown(spec, fsys, 0, &digest))(t); d.SHA256() == digest.SHA256 {
		t.Error("a digest with other targets is believed")
	}
	for name, want := range map[string]string{"few.txt": "1 classes for 4 images", "words.txt": "line 2 is no class",
		"far.txt": "the target 10 of", "part.npy": "labels are integers", "none.txt": "none.txt does not exist"} {
		spec.Targets = name
		_, err := Open(spec, fsys, 0)
		must.Refuse(t, err, want)
	}
}
