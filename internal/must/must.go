// Package must ends a test at the first error, in one line.
package must

import (
	"iter"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// Do ends the test where there is an error.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get gives the value of a call that may fail to the test: must.Get(os.Open(path))(t).
func Get[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Do(t, err)
		return v
	}
}

// Get2 is Get of two values.
func Get2[T, U any](v T, w U, err error) func(t testing.TB) (T, U) {
	return func(t testing.TB) (T, U) {
		t.Helper()
		Do(t, err)
		return v, w
	}
}

// Get3 is Get of three values.
func Get3[T, U, V any](v T, w U, x V, err error) func(t testing.TB) (T, U, V) {
	return func(t testing.TB) (T, U, V) {
		t.Helper()
		Do(t, err)
		return v, w, x
	}
}

// All collects what may fail on the way.
func All[T any](seq iter.Seq2[T, error]) func(t testing.TB) []T {
	return func(t testing.TB) (all []T) {
		t.Helper()
		for v, err := range seq {
			Do(t, err)
			all = append(all, v)
		}
		return all
	}
}

// Have marks a test as failed where a text lacks any of some parts.
func Have(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%.3000s", part, text)
		}
	}
}

// Refuse marks a test as failed unless err is one line with all these words.
func Refuse(t testing.TB, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("error %v, want one line with %q", err, w)
		}
	}
}

// Allocated is how many bytes the process has allocated so far.
func Allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// Survive gives a reader hostile input. It may refuse it, by the error that is returned: in one line that is
// not long. Either way it takes at most 5 seconds and allocates at most 1 GiB.
func Survive(t testing.TB, read func() error) error {
	t.Helper()
	start, before := time.Now(), Allocated()
	err := read()
	if took, used := time.Since(start), Allocated()-before; took > 5*time.Second || used > 1<<30 {
		t.Fatalf("it took %v and %d MiB; error %v", took, used>>20, err)
	}
	if err != nil && (strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 2000) {
		t.Fatalf("%q is no short line", err)
	}
	return err
}
