package input_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"runtime"
	"slices"
	"testing"

	"selfheal/internal/input"
	"selfheal/internal/must"
)

func packed(t *testing.T, data []byte) []byte {
	var b bytes.Buffer
	w := must.Get(gzip.NewWriterLevel(&b, gzip.BestSpeed))(t)
	must.Get(w.Write(data))(t)
	must.Do(t, w.Close())
	return b.Bytes()
}

// Unpack unpacks whatever size the end of the file gives, within a limit, and knows the size before it takes memory.
func TestUnpack(t *testing.T) {
	any := func([]byte) error { return nil }
	text := bytes.Repeat([]byte("selfheal"), 1000)
	one, none := packed(t, text), packed(t, nil)
	lying := slices.Clone(one)
	lying[len(lying)-1] = 0x7f
	for name, c := range map[string]struct {
		data, want []byte
		most       int64
		wrong      string
	}{
		"plain":            {text, text, 1, ""},
		"one":              {one, text, 8000, ""},
		"two":              {slices.Concat(one, one), slices.Concat(text, text), 16000, ""},
		"an empty last":    {slices.Concat(one, none), text, 8000, ""},
		"nothing":          {none, []byte{}, 0, ""},
		"too large":        {one, nil, 7999, "holds more than 7.8 KiB, unpacked"},
		"two too large":    {slices.Concat(one, one), nil, 15999, "holds more than 16 KiB, unpacked"},
		"cut":              {one[:len(one)-9], nil, 8000, "unexpected EOF"},
		"another size":     {lying, nil, 8000, "gzip: invalid checksum"},
		"only a beginning": {[]byte{0x1f, 0x8b}, nil, 8000, "unexpected EOF"},
	} {
		got, err := input.Unpack(c.data, c.most, any)
		if c.wrong != "" {
			must.Refuse(t, err, c.wrong)
		} else if err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}

	bomb := bytes.Repeat(packed(t, make([]byte, 64<<20)), 8)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := input.Unpack(bomb, 511<<20, any)
	must.Refuse(t, err, "holds more than 511 MiB, unpacked")
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 100<<20 {
		t.Errorf("%d bytes were taken", taken)
	}
	_, err = input.Unpack(bomb, 511<<20, func(head []byte) error {
		if head[0] == 0 {
			return errors.New("zeros")
		}
		return nil
	})
	must.Refuse(t, err, "zeros")
}
