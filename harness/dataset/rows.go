package dataset

import (
	"fmt"
	"io/fs"
	"math"
	"slices"

	"selfheal/harness/result"
)

// boxed is a source of rows of features, each of which becomes (v·scale − low)/(high − low).
type boxed struct {
	source
	ends  [2][]float32 // nil: features stay as they are
	scale []float64
}

// inBox puts a source of rows into the box that s gives, if any.
func inBox(src source, s result.Shaping) (source, error) {
	_, shape, err := src.read(0, nil)
	if err != nil {
		return nil, err
	}
	d := shape[2]
	if len(s.Scale) > 1 && len(s.Scale) != d {
		return nil, fmt.Errorf("scale has %d values, a row %d features; give one, or one a feature", len(s.Scale), d)
	}
	b := &boxed{source: src, scale: s.Scale}
	if s.Box != nil {
		b.ends, err = s.Box.Ends(d)
	}
	return b, err
}

func (b *boxed) pixels(bytes []byte, out []float32) {
	b.source.(encoded).pixels(bytes, out)
	b.place(out)
}

// place replaces the features of a row by where they lie in the box.
func (b *boxed) place(out []float32) {
	for i, v := range out {
		if len(b.scale) > 0 {
			v = float32(float64(v) * b.scale[i%len(b.scale)])
		}
		if b.ends[0] != nil {
			v = within(v, b.ends[0][i], b.ends[1][i])
		}
		out[i] = v
	}
}

// within returns where v lies between low and high, as a fraction: the float32 that leads back nearest to v, so that a
// tree that compares v with itself goes the same way. It is 0 if there is no range.
func within(v, low, high float32) float32 {
	width := high - low
	if width == 0 && v == low {
		return 0
	}
	x := float32((float64(v) - float64(low)) / float64(width))
	best, off := x, math.Abs(float64(outOf(x, low, width)-v))
	for _, to := range []float32{0, 1} {
		near := x
		for range 2 {
			near = math.Nextafter32(near, to)
			if d := math.Abs(float64(outOf(near, low, width) - v)); d < off && near >= 0 && near <= 1 {
				best, off = near, d
			}
		}
	}
	return best
}

// outOf returns the feature at a fraction of a range, rounded as the nodes in front of the network round.
func outOf(x, low, width float32) float32 { return float32(x*width) + low }

// Place replaces features, rows in the file's units, by where they lie in the set's box.
func (d *Dataset) Place(rows []float32) {
	b := d.source.(*boxed)
	for n := d.size(); len(rows) >= n; rows = rows[n:] {
		b.place(rows[:n])
	}
}

// explain continues the error about a feature that lies outside its range, or is not a number.
func (b *boxed) explain(x float32, i int) string {
	if math.IsNaN(float64(x)) {
		return "is not a number; fill in missing values"
	}
	low, high := b.ends[0][i], b.ends[1][i]
	if low == high {
		return fmt.Sprintf("is not %v, which its box says is its only value", low)
	}
	return fmt.Sprintf("is %v, outside its box from %v to %v; widen box (--box)", outOf(x, low, high-low), low, high)
}

// Rows reports whether the data at a spec's path are rows of features rather than images.
func Rows(spec Spec, fsys fs.FS) bool {
	spec.Layout, spec.Box, spec.Limit, spec.Indices = result.Flat, nil, 0, nil
	var files closers
	defer files.Close()
	f := Find(spec.Format)
	if !f.Rows {
		return false
	}
	_, err := f.open(fsys, spec, &files)
	return err == nil
}

// Range returns the least and the largest value of each feature over all rows of a file, whichever are chosen.
func Range(spec Spec, fsys fs.FS) (*result.Box, error) {
	spec.Layout, spec.Box, spec.Limit, spec.Indices, spec.Sample = result.Flat, nil, 0, nil, nil
	var files closers
	defer files.Close()
	src, err := Find(spec.Format).open(fsys, spec, &files)
	if err != nil {
		return nil, err
	}
	ids, err := indexed(src.count(), nil)
	if err != nil {
		return nil, err
	}
	if u, ok := src.(unpacker); ok {
		if err := u.unpack(ids, &files); err != nil {
			return nil, err
		}
	}
	if src, err = inBox(src, spec.Shaping); err != nil {
		return nil, err
	}
	var buf []byte
	var row []float32
	box := &result.Box{}
	for _, id := range ids {
		var shape [3]int
		if buf, shape, err = src.read(id, buf); err != nil {
			return nil, err
		}
		row = slices.Grow(row[:0], shape[2])[:shape[2]]
		src.(encoded).pixels(buf, row)
		for i, v := range row {
			if id == ids[0] {
				box.Low, box.High = append(box.Low, float64(v)), append(box.High, float64(v))
			}
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return nil, fmt.Errorf("%s: feature %d is %v; fill in missing values", src.name(id), i, v)
			}
			box.Low[i], box.High[i] = min(box.Low[i], float64(v)), max(box.High[i], float64(v))
		}
	}
	return box, nil
}
