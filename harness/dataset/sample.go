package dataset

import (
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"selfheal/harness/result"
	"selfheal/internal/lists"
)

// sampled orders ids at random so that the first n, for any n, are a sample too. By class, the first image of every
// class comes before the second of any. An image's position depends on its id and the seed alone.
func sampled(src labelled, ids []int, s result.Sample) []int {
	type drawn struct {
		id, round int
		key       uint64
	}
	all, seed := make([]drawn, len(ids)), [32]byte{}
	for i, id := range ids {
		binary.LittleEndian.PutUint64(seed[:], s.Seed)
		binary.LittleEndian.PutUint64(seed[8:], uint64(id))
		// unlike PCG, neighbouring seeds give unrelated numbers
		all[i] = drawn{id: id, key: rand.NewChaCha8(seed).Uint64()}
	}
	byKey := func(a, b drawn) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.id, b.id)) }
	slices.SortFunc(all, byKey)
	if s.PerClass {
		rounds := map[int]int{} // by label
		for i := range all {
			label := src.label(all[i].id)
			all[i].round = rounds[label]
			rounds[label]++
		}
		slices.SortFunc(all, func(a, b drawn) int { return cmp.Or(cmp.Compare(a.round, b.round), byKey(a, b)) })
	}
	return lists.Map(all[:min(s.N, len(all))], func(one drawn) int { return one.id })
}

// byClass reports whether images are sorted by class: there are several classes, and the labels never fall.
func byClass(src labelled, ids []int) bool {
	all := lists.Map(ids, src.label)
	return slices.IsSorted(all) && all[0] < all[len(all)-1]
}

// dropped returns how many classes a limit takes away although as many images could have kept them.
func dropped(src labelled, ids []int, limit int) int {
	if limit >= len(ids) {
		return 0
	}
	all, kept := map[int]bool{}, 0
	for i, id := range ids {
		if all[src.label(id)] = true; i < limit {
			kept = len(all)
		}
	}
	if kept == min(limit, len(all)) {
		return 0
	}
	return len(all) - kept
}
