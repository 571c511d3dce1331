package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"selfheal/harness/result"
	"selfheal/internal/memory"
	"selfheal/internal/pillow"
)

// table holds rows of features in Parquet files: a column of lists of numbers, or a column for each feature. The chosen
// rows are kept in memory, as columns allow no access to a row.
type table struct {
	*pictures
	leaves [][]int // columns of the features, for each file
	d      int     // features of a row
	values []float32
	at     []int // index of each row among values, by id; -1 for rows that are not chosen
}

// Names of columns, in the order in which they are tried, and the name that stands for all other columns.
var (
	featureColumns = []string{"features", "x", "embedding"}
	targetColumns  = append(slices.Clip(labelColumns), "target", "y", "class")
)

const otherColumns = "*"

// noColumn is the error about a file without the column that is asked for.
type noColumn struct{ error }

// columns reads the labels of a file and finds its features.
func (t *table) columns(part *picturePart, keys *result.Keys) error {
	x, y := featureColumns, targetColumns
	if keys != nil {
		x, y = []string{keys.X}, []string{keys.Y}
	}
	label, err := t.readLabels(part, y)
	if err != nil {
		return err
	}
	leaves, d, rows := []int(nil), 0, part.pages.NumRows()
	var texts []string
	for _, path := range part.pages.Schema().Columns() {
		leaf, _ := part.pages.Schema().Lookup(path...)
		numbers := leaf.Node.Type().Kind() <= parquet.Double && leaf.Node.Type().Kind() != parquet.Int96
		switch list := leaf.MaxRepetitionLevel == 1; {
		case list && numbers && slices.Contains(x, path[0]):
			values := int64(0)
			for _, g := range part.pages.RowGroups() {
				values += g.ColumnChunks()[leaf.ColumnIndex].NumValues()
			}
			if rows == 0 || values%rows != 0 {
				return fmt.Errorf("its column %s has %d numbers in %d rows: rows differ in length", shorten(path[0]),
					values, rows)
			}
			t.leaves = append(t.leaves, []int{leaf.ColumnIndex})
			return t.wide(int(values / rows))
		case keys != nil && keys.Y == "" && numbers && slices.Contains(x, path[0]): // a truth
			t.leaves = append(t.leaves, []int{leaf.ColumnIndex})
			return t.wide(1)
		case list || leaf.ColumnIndex == label.ColumnIndex || strings.HasPrefix(path[0], "__index_level_"):
		case !numbers:
			texts = append(texts, strings.Join(path, "."))
		default:
			leaves = append(leaves, leaf.ColumnIndex)
			d++
		}
	}
	switch {
	case keys != nil && keys.X != otherColumns:
		return noColumn{fmt.Errorf("it has no column %s of lists of numbers; %q stands for all columns beside the "+
			"labels", shorten(keys.X), otherColumns)}
	case len(texts) > 0:
		return fmt.Errorf("its columns %s hold no numbers; encode or drop them", some(texts))
	case d == 0:
		return errors.New("it has no columns of numbers beside the labels")
	}
	t.leaves = append(t.leaves, leaves)
	return t.wide(d)
}

// wide notes how many features a file's rows have.
func (t *table) wide(d int) error {
	if len(t.leaves) > 1 && d != t.d {
		return fmt.Errorf("its rows have %d features, those before it %d", d, t.d)
	}
	if t.d = d; d == 0 || d > pillow.MaxPixels {
		return fmt.Errorf("rows of %d features can't be read", d)
	}
	return nil
}

// unpack reads the rows of ids.
func (t *table) unpack(ids []int, _ *closers) error {
	if err := memory.Room(4 * int64(len(ids)) * int64(t.d)); err != nil {
		return err
	}
	t.values, t.at = make([]float32, len(ids)*t.d), slices.Repeat([]int{-1}, t.count())
	for k, id := range ids {
		t.at[id] = k
	}
	for p := range t.parts {
		part := &t.parts[p]
		rows := int(part.pages.NumRows())
		for c, leaf := range t.leaves[p] {
			per := 1 // values of a row
			if len(t.leaves[p]) == 1 {
				per = t.d
			}
			n := 0
			err := guarded(func() error {
				return each(part.pages, leaf, nil, func(_ int, v parquet.Value) error {
					row, place := n/per, c+n%per
					n++
					if row >= rows || (v.RepetitionLevel() == 0) != (place == c) {
						return fmt.Errorf("row %d differs in length from the others", row)
					}
					if k := t.at[part.first+row]; k >= 0 {
						x, ok := numberOf(v)
						if !ok {
							return fmt.Errorf("row %d holds %s for feature %d, not a number", row, kindOf(v), place)
						}
						t.values[k*t.d+place] = x
					}
					return nil
				})
			})
			if err != nil {
				return fmt.Errorf("%s%w", part.about, err)
			}
			if n != rows*per {
				return fmt.Errorf("%sit has %d values of feature %d for %d rows", part.about, n, c, rows)
			}
		}
	}
	return nil
}

func numberOf(v parquet.Value) (x float32, ok bool) {
	if v.IsNull() {
		return 0, false
	}
	switch v.Kind() {
	case parquet.Boolean:
		if v.Boolean() {
			x = 1
		}
	case parquet.Int32:
		x = float32(v.Int32())
	case parquet.Int64:
		x = float32(v.Int64())
	case parquet.Float:
		x = v.Float()
	case parquet.Double:
		x = float32(v.Double())
	default:
		return 0, false
	}
	return x, true
}

func (t *table) read(id int, buf []byte) ([]byte, [3]int, error) {
	buf = buf[:0]
	if k := t.at[id]; k >= 0 {
		buf, _ = binary.Append(buf, binary.LittleEndian, t.values[k*t.d:(k+1)*t.d])
	}
	return buf, [3]int{1, 1, t.d}, nil
}

func (t *table) pixels(bytes []byte, out []float32) {
	_, _ = binary.Decode(bytes, binary.LittleEndian, out)
}
