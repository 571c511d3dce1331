// Package chart lays charts out on a sheet and writes it as PNG and SVG. It knows no results.
package chart

import (
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Sheet is a picture: headlines, panels in rows, and one legend below.
type Sheet struct {
	Width   vg.Length
	Columns int // panels a row
	Margin  vg.Length
	Head    []string // a title and the lines below it; a page has them itself
	Panels  []Panel
	Legend  []Series
	Alt     string // what it shows, for readers who do not see it
	Caption string // below it in a page
}

// Panel is one chart of a sheet.
type Panel interface {
	Height(width vg.Length) vg.Length
	// Draw draws it with its upper left corner at (left, top). Its title may be as wide as titled.
	Draw(p Pen, left, top, width, height, titled vg.Length)
}

// InPage is a sheet of one column for a page, which has title and tables itself.
func InPage() Sheet { return Sheet{Width: 3.6 * vg.Inch, Columns: 1, Margin: 6} }

// InFile is a sheet for a file of n panels: one column of print for one, else two; more than four stand three abreast.
func InFile(n int, wide bool) Sheet {
	switch {
	case n <= 1:
		return Sheet{Width: OneColumn, Columns: 1, Margin: 8}
	case n <= 4 || wide:
		return Sheet{Width: twoColumns, Columns: 2, Margin: 8}
	}
	return Sheet{Width: twoColumns, Columns: 3, Margin: 8}
}

func (s Sheet) PanelWidth() vg.Length {
	n := vg.Length(s.Columns)
	return (s.Width - 2*s.Margin - (n-1)*gap) / n
}

func (s Sheet) rows() [][]Panel { return slices.Collect(slices.Chunk(s.Panels, s.Columns)) }

func (s Sheet) rowHeight(row []Panel) (h vg.Length) {
	for _, p := range row {
		h = max(h, p.Height(s.PanelWidth()))
	}
	return h
}

// headlines break the head into lines that fit the sheet: those of its title, and those below.
func (s Sheet) headlines() (title, said []string, height vg.Length) {
	for i, text := range s.Head {
		if width := s.Width - 2*s.Margin; i == 0 {
			title = wrap(text, Title, width, 3)
		} else {
			said = append(said, wrap(text, Normal, width, 3)...)
		}
	}
	if title != nil {
		height = titleStep*vg.Length(len(title)) + LineStep*vg.Length(len(said)) + 8
	}
	return title, said, height
}

// Size is as wide as the sheet and as high as its head, panels and legend.
func (s Sheet) Size() (width, height vg.Length) {
	_, _, height = s.headlines()
	height += 2*s.Margin + LineStep*vg.Length(len(s.legendLines()))
	for _, row := range s.rows() {
		height += s.rowHeight(row) + gap
	}
	return s.Width, height
}

func (s Sheet) draw(canvas vg.Canvas, t theme) {
	width, height := s.Size()
	p := Pen{draw.NewCanvas(canvas, width, height), t}
	p.Block(t.Paper, p.Rectangle)
	title, said, head := s.headlines()
	y := height - s.Margin
	for _, l := range title {
		p.Write(l, Pt(width/2, y), Title, t.Ink, -0.5, -1)
		y -= titleStep
	}
	for _, l := range said {
		p.Write(l, Pt(width/2, y), Normal, t.Muted, -0.5, -1)
		y -= LineStep
	}
	top, w := height-s.Margin-head, s.PanelWidth()
	for r, row := range s.rows() {
		left := s.Margin
		if r > 0 { // a last row that is not full is centred
			left += (w + gap) * vg.Length(s.Columns-len(row)) / 2
		}
		h := s.rowHeight(row)
		for i, one := range row {
			titled := w // and the room above the next ones where these have no title
			for _, next := range row[i+1:] {
				if p, plain := next.(Plot); !plain || p.Title != "" {
					break
				}
				titled += gap + w
			}
			one.Draw(p, left, top, w, h, titled)
			left += w + gap
		}
		top -= h + gap
	}
	s.drawLegend(p)
}

// Merged are the labels of all series, each once: a line and its marks are one entry.
func Merged(all []Series) (entries []Series) {
	for _, s := range all {
		i := slices.IndexFunc(entries, func(o Series) bool { return o.Label == s.Label })
		switch {
		case s.Label == "":
		case i < 0:
			entries = append(entries, s)
		default:
			e := &entries[i]
			if s.Line && !e.Line {
				e.Line, e.Dash = true, s.Dash
			}
			if s.Marks && !e.Marks {
				e.Marks, e.Marker = true, s.Marker
			}
		}
	}
	return entries
}

// between is the room between two entries of a legend.
const between = vg.Length(18)

func (s Sheet) legendLines() (lines [][]Series) {
	var x vg.Length
	for _, e := range s.Legend {
		if lines == nil || x+e.legendWidth() > s.Width-2*s.Margin {
			lines, x = append(lines, nil), 0
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], e)
		x += e.legendWidth() + between
	}
	return lines
}

func (s Series) legendWidth() vg.Length {
	return s.sampleWidth() + 4 + Normal.Width(s.Label)
}

// sampleWidth is a legend's room for a look: a marker alone takes less.
func (l Look) sampleWidth() vg.Length {
	if !l.Line && !l.Bars {
		return 8
	}
	return Swatch
}

func (s Sheet) drawLegend(p Pen) {
	lines := s.legendLines()
	for i, line := range lines {
		wide := between * vg.Length(len(line)-1)
		for _, e := range line {
			wide += e.legendWidth()
		}
		x, y := (s.Width-wide)/2, s.Margin+LineStep*(vg.Length(len(lines)-i)-0.5)
		for _, e := range line {
			p.Sample(e.Look, x, y, e.sampleWidth())
			p.Write(e.Label, Pt(x+e.sampleWidth()+4, y), Normal, p.Ink, 0, -0.5)
			x += e.legendWidth() + between
		}
	}
}

func (p Pen) Sample(l Look, x, y, w vg.Length) {
	if l.Bars {
		p.Block(p.Colour(l.Colour), Rect(x, y-4, x+w, y+4))
		return
	}
	if l.Line && w >= Swatch { // else there is room for the marker only
		p.StrokeLine2(p.Line(l), x, y, x+w, y)
	}
	if l.Marks {
		p.Mark(l, Pt(x+w/2, y))
	}
}

const PanelTitle = vg.Length(18)
