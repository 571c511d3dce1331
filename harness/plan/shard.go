package plan

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"selfheal/internal/lists"
)

// Shard is one of N parts of a plan's work, counted from 1. The zero value is the whole plan. A shard does all the
// work on its images, which depends on no other image. A merge of the shards' journals makes cells and everything
// else that depends on all images.
type Shard struct {
	I int `json:"shard"`
	N int `json:"of"`
}

// MaxShards is more than any plan has work for.
const MaxShards = 1_000_000

// String returns the shard as --shard takes it.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.I, s.N) }

// Folder returns a shard's folder within a run's output folder.
func (s Shard) Folder() string {
	return fmt.Sprintf("shard-%0*d-of-%d", len(fmt.Sprint(s.N)), s.I, s.N)
}

// Valid reports whether there is such a shard.
func (s Shard) Valid() bool { return 1 <= s.I && s.I <= s.N && s.N <= MaxShards }

// ParseShard reads I/N; "" is the whole plan.
func ParseShard(text string) (s Shard, err error) {
	if text == "" {
		return s, nil
	}
	i, n, _ := strings.Cut(text, "/")
	if s.I, err = strconv.Atoi(i); err == nil {
		s.N, err = strconv.Atoi(n)
	}
	if err != nil || !s.Valid() {
		return s, fmt.Errorf("%q must be I/N, I from 1 to N, N at most %d", text, MaxShards)
	}
	return s, nil
}

// Deal returns the shard of each image of a set, from 1 to n. It deals them in the order of a hash of their ids.
func Deal(ids []int, n int) (owner []int) {
	order := ByHash(ids, "")
	owner = make([]int, len(ids))
	for rank, i := range order {
		owner[i] = 1 + rank%n
	}
	return owner
}

// ByHash returns the indices of a list of ids, in the order of a hash of key and id.
func ByHash(ids []int, key string) []int {
	order, hashes := lists.To(len(ids)), make([]uint64, len(ids))
	for i, id := range ids {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s%d", key, id)
		hashes[i] = h.Sum64()
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(hashes[a], hashes[b]) })
	return order
}
