package gate

import (
	"encoding/json"
	"errors"
	"testing"

	"selfheal/internal/must"
)

// An accepted baseline is the same when it is written and read again, and can be compared with.
func FuzzParse(f *testing.F) {
	now := file(3, same(20, 40)...)
	f.Add(must.Get(json.Marshal(mustBaseline(f, now)))(f))
	f.Add([]byte(`{"schema": "selfheal.baseline/1", "gate": {"max_drop": 0.5}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var b *Baseline
		err := must.Survive(t, func() (err error) {
			b, err = parse(data)
			return err
		})
		if errors.Is(err, ErrOlder) {
			_ = must.Survive(t, func() error { return b.Gate.Set() })
		}
		if err != nil {
			return
		}
		again := must.Get(parse(must.Get(json.Marshal(b))(t)))(t)
		if !again.Same(b) {
			t.Fatalf("written and read again it says something else")
		}
		_ = must.Survive(t, func() error {
			_, err := Compare(t.Context(), b, now, b.Gate)
			return err
		})
	})
}
