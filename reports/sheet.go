package reports

import (
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// sheet is a picture: headlines, panels in rows, and one legend below.
type sheet struct {
	Width   vg.Length
	Columns int // panels a row
	Margin  vg.Length
	Head    []string // a title and the lines below it; a page has them itself
	Panels  []panel
	Legend  []plotSeries
	Alt     string // what it shows, for readers who do not see it
	Caption string // below it in a page
}

// panel is one chart of a sheet.
type panel interface {
	height(width vg.Length) vg.Length
	// draw draws it with its upper left corner at (left, top). Its title may be as wide as titled.
	draw(p pen, left, top, width, height, titled vg.Length)
	titled() bool
}

// inPage is a sheet of one column for a page, which has title and tables itself.
func inPage() sheet { return sheet{Width: 3.6 * vg.Inch, Columns: 1, Margin: 6} }

// inFile is a sheet for a file of n panels: as wide as a column of print for one, as two
// columns for several. There are three abreast where there are more than four, or two where
// the panels need room.
func inFile(n int, wide bool) sheet {
	switch {
	case n <= 1:
		return sheet{Width: oneColumn, Columns: 1, Margin: 8}
	case n <= 4 || wide:
		return sheet{Width: twoColumns, Columns: 2, Margin: 8}
	}
	return sheet{Width: twoColumns, Columns: 3, Margin: 8}
}

// panelWidth is the width of one panel.
func (s sheet) panelWidth() vg.Length {
	n := vg.Length(s.Columns)
	return (s.Width - 2*s.Margin - (n-1)*gap) / n
}

// rows are the panels, row by row.
func (s sheet) rows() [][]panel { return slices.Collect(slices.Chunk(s.Panels, s.Columns)) }

// rowHeight is that of the highest panel in a row.
func (s sheet) rowHeight(row []panel) (h vg.Length) {
	for _, p := range row {
		h = max(h, p.height(s.panelWidth()))
	}
	return h
}

// headlines break the head into lines that fit the sheet: those of its title, and those below.
func (s sheet) headlines() (title, said []string, height vg.Length) {
	for i, text := range s.Head {
		if width := s.Width - 2*s.Margin; i == 0 {
			title = wrap(text, style(11, true), width, 3)
		} else {
			said = append(said, wrap(text, style(normal, false), width, 3)...)
		}
	}
	if title != nil {
		height = titleStep*vg.Length(len(title)) + lineStep*vg.Length(len(said)) + 8
	}
	return title, said, height
}

func (s sheet) size() (width, height vg.Length) {
	_, _, height = s.headlines()
	height += 2*s.Margin + lineStep*vg.Length(len(s.legendLines()))
	for _, row := range s.rows() {
		height += s.rowHeight(row) + gap
	}
	return s.Width, height
}

// draw draws the sheet on a canvas of its size.
func (s sheet) draw(canvas vg.Canvas, t theme) {
	width, height := s.size()
	p := pen{draw.NewCanvas(canvas, width, height), t}
	p.block(t.paper, p.Rectangle)
	title, said, head := s.headlines()
	y := height - s.Margin
	for _, l := range title {
		p.write(l, vg.Point{X: width / 2, Y: y}, style(11, true), t.ink, -0.5, -1)
		y -= titleStep
	}
	for _, l := range said {
		p.write(l, vg.Point{X: width / 2, Y: y}, style(normal, false), t.muted, -0.5, -1)
		y -= lineStep
	}
	top, w := height-s.Margin-head, s.panelWidth()
	for r, row := range s.rows() {
		left := s.Margin
		if r > 0 { // a last row that is not full is centred
			left += (w + gap) * vg.Length(s.Columns-len(row)) / 2
		}
		h := s.rowHeight(row)
		for i, one := range row {
			titled := w // and the room above the next ones where these have no title
			for j := i + 1; j < len(row) && !row[j].titled(); j++ {
				titled += gap + w
			}
			one.draw(p, left, top, w, h, titled)
			left += w + gap
		}
		top -= h + gap
	}
	s.drawLegend(p)
}

// merged are the labels of all series, each once: a line and its marks are one entry.
func merged(all []plotSeries) (entries []plotSeries) {
	for _, s := range all {
		i := slices.IndexFunc(entries, func(o plotSeries) bool { return o.Label == s.Label })
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

// legendLines break the legend into lines no wider than the sheet.
func (s sheet) legendLines() (lines [][]plotSeries) {
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

func (s plotSeries) legendWidth() vg.Length {
	return s.sampleWidth() + 4 + style(normal, false).Width(s.Label)
}

// sampleWidth is a legend's room for a look: a marker alone takes less.
func (l look) sampleWidth() vg.Length {
	if !l.Line && !l.Bars {
		return 8
	}
	return swatch
}

// drawLegend draws the lines of the legend, each in the middle.
func (s sheet) drawLegend(p pen) {
	lines := s.legendLines()
	for i, line := range lines {
		wide := between * vg.Length(len(line)-1)
		for _, e := range line {
			wide += e.legendWidth()
		}
		x, y := (s.Width-wide)/2, s.Margin+lineStep*(vg.Length(len(lines)-i)-0.5)
		for _, e := range line {
			p.sample(e.look, x, y, e.sampleWidth())
			p.write(e.Label, vg.Point{X: x + e.sampleWidth() + 4, Y: y}, style(normal, false), p.ink, 0, -0.5)
			x += e.legendWidth() + between
		}
	}
}

// sample draws how a series looks: its line and marker, or its bar's colour.
func (p pen) sample(l look, x, y, w vg.Length) {
	if l.Bars {
		p.block(p.colour(l.Colour), vg.Rectangle{Min: vg.Point{X: x, Y: y - 4}, Max: vg.Point{X: x + w, Y: y + 4}})
		return
	}
	if l.Line && w >= swatch { // else there is room for the marker only
		p.StrokeLine2(p.line(l), x, y, x+w, y)
	}
	if l.Marks {
		p.mark(l, vg.Point{X: x + w/2, Y: y})
	}
}

// panelTitle is the height of the line above a panel.
const panelTitle = vg.Length(18)
