package compare

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"selfheal/harness/stats"
)

// set is a data set of one run, or of its cells with another number of images.
type set struct {
	run   *Run
	name  string
	n     int
	index []int // by image: its number in the pool, then in the group; the same in all sets that have it
}

// setsOf finds the sets of the cells with verdicts. Numbers that the pool joins mean the same image.
func setsOf(runs []Run) (sets []*set, numbers pool) {
	byKey := map[string]int{}
	number := func(keys []string) int {
		for _, key := range keys {
			if _, known := byKey[key]; !known {
				byKey[key] = numbers.add()
			}
			numbers.join(byKey[key], byKey[keys[0]])
		}
		return byKey[keys[0]]
	}
	made := map[string][]int{} // numbers by description, as equal descriptions mean equal images
	for r := range runs {
		run := &runs[r]
		for _, c := range run.File.Cells {
			if !judged(c) || slices.ContainsFunc(sets, func(s *set) bool {
				return s.run == run && s.name == c.Dataset && s.n == c.N
			}) {
				continue
			}
			s := &set{run: run, name: c.Dataset, n: c.N}
			all, keys := s.keys()
			if made[all] == nil {
				for i := range s.n {
					made[all] = append(made[all], number(keys(i)))
				}
			}
			s.index = slices.Clone(made[all])
			sets = append(sets, s)
		}
	}
	return sets, numbers
}

// keys returns the keys of a set's images, and one for all of them together. Images with a key in common are the
// same. One key is the set's hash and the image's index, another the id and checksum.
func (s *set) keys() (all string, of func(i int) []string) {
	d, images := s.run.File.Datasets[s.name], s.run.File.Images[s.name]
	whole := fmt.Sprintf("set %q %d ", d.SHA256, s.n)
	unknown := d.N != s.n || d.SHA256 == ""
	if unknown {
		whole = fmt.Sprintf("run %q %d %q", s.run.Folder, s.n, s.name)
	}
	if unknown || len(images.Checksums) != 8*s.n || images.IDs != nil && len(images.IDs) != s.n {
		return whole, func(i int) []string { return []string{fmt.Sprint(whole, i)} }
	}
	how := encoded([]any{d.Format, d.Transform, d.Box, d.Scale})
	return fmt.Sprint(whole, how, images), func(i int) []string {
		id := i
		if images.IDs != nil {
			id = images.IDs[i]
		}
		return []string{fmt.Sprint(whole, i), fmt.Sprintf("image %s %d %s", how, id, images.Checksums[8*i:8*i+8])}
	}
}

// pool is a union–find forest of image numbers.
type pool []int

func (p *pool) add() int {
	*p = append(*p, len(*p))
	return len(*p) - 1
}

func (p pool) find(k int) int {
	for p[k] != k {
		p[k] = p[p[k]]
		k = p[k]
	}
	return k
}

func (p pool) join(a, b int) { p[p.find(a)] = p.find(b) }

// grouped returns the groups of connected sets, in no particular order. The images of each are numbered from 0.
func grouped(sets []*set, numbers pool) (groups []*Group) {
	together := slices.Clone(numbers)
	for _, s := range sets {
		for _, k := range s.index {
			together.join(k, s.index[0])
		}
	}
	of := map[int]*Group{}
	for _, s := range sets {
		root := together.find(s.index[0])
		if of[root] == nil {
			of[root] = &Group{}
			groups = append(groups, of[root])
		}
		of[root].sets = append(of[root].sets, s)
	}
	for _, g := range groups {
		dense, names := map[int]int{}, []string{}
		for _, s := range g.sets {
			for i, k := range s.index {
				k = numbers.find(k)
				if _, seen := dense[k]; !seen {
					dense[k] = len(dense)
				}
				s.index[i] = dense[k]
			}
			names = append(names, s.name)
		}
		slices.Sort(names)
		g.Name, g.Images = strings.Join(slices.Compact(names), ", "), len(dense)
	}
	return groups
}

// verdicts has two bits for each of a group's images.
type verdicts struct{ known, right []uint64 }

// verdicts returns an entry's verdicts: right under every one of the columns. It must have them all.
func (g *Group) verdicts(entry int, columns []int) verdicts {
	e, words := &g.Entries[entry], (g.Images+63)/64
	v := verdicts{make([]uint64, words), make([]uint64, words)}
	for i, k := range e.set.index {
		bit := uint64(1) << (k % 64)
		v.known[k/64] |= bit
		if e.right(i, columns) {
			v.right[k/64] |= bit
		}
	}
	return v
}

// against counts the images that both have. Only v is right on the lost ones, only o on the won ones.
func (v verdicts) against(o verdicts) (p stats.Paired) {
	for i, known := range v.known {
		both := known & o.known[i]
		p.N += bits.OnesCount64(both)
		p.Lost += bits.OnesCount64(both & v.right[i] &^ o.right[i])
		p.Won += bits.OnesCount64(both & o.right[i] &^ v.right[i])
	}
	return p
}
