// Package must ends a test at the first error, in one line: [Do] for a call with an error alone, [Get] for one with a
// value too.
package must

import (
	"iter"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// Do ends the test if there is an error.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns the value of a call that may fail, or ends the test: must.Get(os.Open(path))(t).
func Get[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Do(t, err)
		return v
	}
}

// Err returns the error of a call that may fail: must.Refuse(t, must.Err(os.Open(path)), "no such file").
func Err[T any](_ T, err error) error { return err }

// Get2 is Get for two values.
func Get2[T, U any](v T, w U, err error) func(t testing.TB) (T, U) {
	return func(t testing.TB) (T, U) {
		t.Helper()
		Do(t, err)
		return v, w
	}
}

// Get3 is Get for three values.
func Get3[T, U, V any](v T, w U, x V, err error) func(t testing.TB) (T, U, V) {
	return func(t testing.TB) (T, U, V) {
		t.Helper()
		Do(t, err)
		return v, w, x
	}
}

// All collects the values of seq, or ends the test at the first error.
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

// Have fails the test if a text lacks any of the parts.
func Have(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%.3000s", part, text)
		}
	}
}

// Refuse fails the test unless err is one line with all these words.
func Refuse(t testing.TB, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("error %v, want one line with %q", err, w)
		}
	}
}

// Allocated returns the bytes that the process has allocated so far.
func Allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// Survive calls a reader of hostile input. The reader may return an error, in one short line. In any case it may take 5
// seconds and allocate 1 GiB at most.
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
