package open

import (
	"fmt"

	"selfheal/attacks"
	"selfheal/harness/dataset"
	"selfheal/harness/plan"
)

// Images are the first images of a data set. Each is read when it is asked for: all of them may be more than the memory
// holds.
type Images struct {
	*dataset.Dataset // nil where the names are all that is known
	n                int
	owner            []int       // the shard of each image; nil where the run has no shards
	shard            int         // this run's; 0 in one that has all images
	names            []ImageName // where no data set is open
}

// ImageName is an image's id in the file and its label.
type ImageName struct{ ID, Label int }

// Named are images of which only names are known, and whose shards they are.
func Named(names []ImageName, owner []int) Images {
	return Images{n: len(names), names: names, owner: owner}
}

// Share leaves to a run its shard's of the images.
func (s Images) Share(shard plan.Shard) Images {
	ids := make([]int, s.Len())
	for i := range ids {
		ids[i] = s.ID(i)
	}
	s.owner, s.shard = plan.Deal(ids, shard.N), shard.I
	return s
}

// Len is the number of images.
func (s Images) Len() int { return s.n }

// ID is the i-th image's id in its file.
func (s Images) ID(i int) int {
	if s.names != nil {
		return s.names[i].ID
	}
	return s.Dataset.ID(i)
}

// Label is the i-th image's.
func (s Images) Label(i int) int {
	if s.names != nil {
		return s.names[i].Label
	}
	return s.Dataset.Label(i)
}

// Owner is the i-th image's shard; 0 where there are none.
func (s Images) Owner(i int) int {
	if s.owner == nil {
		return 0
	}
	return s.owner[i]
}

// Shared reports whether other shards have some of the images.
func (s Images) Shared() bool { return s.shard > 0 }

// Own reports whether the i-th image is this run's to work on.
func (s Images) Own(i int) bool { return s.shard == 0 || s.owner[i] == s.shard }

// First reports whether this run does the work that is done once for the whole set, or has it done.
func (s Images) First() bool { return s.shard == 0 || s.n > 0 && s.owner[0] == s.shard }

// Mine is how many are.
func (s Images) Mine() int {
	if s.shard == 0 {
		return s.n
	}
	return s.OwnedBy(s.shard)
}

// OwnedBy is how many images a shard has.
func (s Images) OwnedBy(shard int) (n int) {
	for _, owner := range s.owner {
		if owner == shard {
			n++
		}
	}
	return n
}

// Read reads the i-th image.
func (s Images) Read(i int) (im attacks.Image, err error) {
	if im.ID, im.Pixels, im.Label, err = s.Image(i); err != nil {
		err = fmt.Errorf("image %d: %w", s.ID(i), err)
	}
	return im, err
}

// Head is the set of its first n images, or of all where there are fewer. They are no shard's in particular.
func (s Images) Head(n int) Images {
	return Images{Dataset: s.Dataset, names: s.names, owner: s.owner, n: min(s.n, n)}
}
