package main

import (
	"fmt"
	"math"
	"slices"

	"selfheal/control/theory"
	"selfheal/reports"
)

// Colours of a figure, by what they stand for; they are Okabe and Ito's, in the reports' order.
const (
	colourInk       = -1
	colourOther     = 0 // class −1, a bound
	colourOne       = 1 // class 1, a measurement
	colourManifold  = 2
	colourHighlight = 3
	colourFaint     = 4
	colourFainter   = 5
)

// points is a series of marks in the plane.
func points(label string, at []theory.Point, colour, marker int) reports.TheorySeries {
	s := reports.TheorySeries{Label: label, Colour: colour, Marks: true, Marker: marker}
	for _, p := range at {
		s.X, s.Y = append(s.X, p[0]), append(s.Y, p[1])
	}
	return s
}

// way is a series that joins points of the plane.
func way(label string, at []theory.Point, colour, dash int) reports.TheorySeries {
	s := points(label, at, colour, 0)
	s.Marks, s.Line, s.Dash = false, true, dash
	return s
}

// plane is a panel over a field's box. A field of classes has its values made indices into them.
func plane(title string, f *theory.Field, classes []int, index func(v float64) float64, series ...reports.TheorySeries) reports.TheoryPanel {
	p := reports.TheoryPanel{Title: title, Square: true, Series: series,
		Box:   [4]float64{f.Box[0][0], f.Box[0][1], f.Box[1][0], f.Box[1][1]},
		Field: &reports.TheoryField{N: f.N, Values: slices.Clone(f.Values), Classes: classes}}
	if index != nil {
		for i, v := range p.Field.Values {
			p.Field.Values[i] = index(v)
		}
	}
	return p
}

// sides are the classes −1 and 1.
var sides = []int{colourOther, colourOne}

func sideIndex(v float64) float64 { return (v + 1) / 2 }

// byClass is two series of points, one a class.
func byClass(what string, at []theory.Point, labels []int, markers [2]int) []reports.TheorySeries {
	var one, other []theory.Point
	for i, p := range at {
		if labels[i] > 0 {
			one = append(one, p)
		} else {
			other = append(other, p)
		}
	}
	return []reports.TheorySeries{points(what+", class 1", one, colourOne, markers[0]), points(what+", class 2", other, colourOther, markers[1])}
}

func defenceFigure(l *theory.LinearDefence) reports.TheoryFigure {
	clean := byClass("clean", l.Clean, l.Labels, [2]int{0, 1})
	perturbed := byClass("perturbed", l.Perturbed, l.Labels, [2]int{2, 4})
	controlled := byClass("controlled", l.Controlled, l.Labels, [2]int{3, 3})
	return reports.TheoryFigure{
		Slug: "linear-defence", Title: "Linear reactive defence", Columns: 2,
		Caption: fmt.Sprintf("Two classes on a line, and a linear classifier that crosses it at %.3g radians. Accuracy on clean points %s, on perturbed ones %s, after control %s. "+
			"The loss is that of the running loss, the squared distance from the line, shaded where it is small. Projected, the classifier's margin goes from %.3f to %.3f.",
			l.Angle, percentOf(l.AccuracyClean), percentOf(l.AccuracyPerturbed), percentOf(l.AccuracyControlled), l.Margin, l.ProjectedMargin),
		Panels: []reports.TheoryPanel{
			plane("(a) Classifier F: "+percentOf(l.AccuracyClean)+" clean, "+percentOf(l.AccuracyPerturbed)+" perturbed", l.Regions, sides, sideIndex, slices.Concat(clean, perturbed)...),
			plane("(b) Loss ‖(I − P)x‖²", l.Loss, nil, nil, slices.Concat(clean, perturbed)...),
			plane("(c) Controlled points: "+percentOf(l.AccuracyControlled), l.Loss, nil, nil, controlled...),
			plane("(d) Classifier behind the projection", l.Projected, sides, sideIndex, slices.Concat(clean, perturbed)...),
		},
	}
}

func percentOf(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

func marginFigure(m *theory.Margins) reports.TheoryFigure {
	curve := way("manifold M", m.Curve, colourManifold, 1)
	data := byClass("data", m.Data, m.Labels, [2]int{0, 1})
	with := func(s reports.TheorySeries) []reports.TheorySeries {
		return append([]reports.TheorySeries{curve, s}, data...)
	}
	end := func(w [2]theory.Point) reports.TheorySeries { return way("Euclidean margin", w[:], colourInk, 1) }
	parts := plane("(c) Partitions by classifier and projection", m.Partitions, []int{colourOne, colourFainter, colourOther, colourFaint}, nil, append([]reports.TheorySeries{curve}, data...)...)
	for i, at := range m.PartitionText {
		parts.Texts = append(parts.Texts, reports.TheoryText{X: at[0], Y: at[1], Text: string(rune('A' + i))})
	}
	return reports.TheoryFigure{
		Slug: "margins", Title: "Margins on a curve", Columns: 2,
		Caption: fmt.Sprintf("A binary data set on a curve M and a linear classifier F. d_M(F) = %.4f along the curve, d_e(F) = %.4f in the plane, and d_e(F∘E) = %.4f behind the projection E onto the curve. "+
			"F says class 1 in A and B, class 2 in C and D; E takes A and D to the upper part of M, B and C to the lower one, so that F∘E says class 1 in A and D.",
			m.Manifold, m.Euclidean, m.Projected),
		Panels: []reports.TheoryPanel{
			plane(fmt.Sprintf("(a) Along the manifold: 2·d_M = %.3f", 2*m.Manifold), m.Regions, sides, sideIndex, with(way("geodesic", m.Geodesic, colourHighlight, 0))...),
			plane(fmt.Sprintf("(b) In the plane: d_e = %.3f", m.Euclidean), m.Regions, sides, sideIndex, append(with(end(m.EuclideanWay)), points("", m.EuclideanWay[1:], colourInk, 3))...),
			parts,
			plane(fmt.Sprintf("(d) Behind the projection: d_e = %.3f", m.Projected), m.Composite, sides, sideIndex, append(with(end(m.ProjectedWay)), points("", m.ProjectedWay[1:], colourInk, 3))...),
		},
	}
}

func ratioFigure(p *theory.ProjectedRatio) reports.TheoryFigure {
	bound := reports.TheorySeries{Label: "bound √(r/d)", Colour: colourInk, Line: true}
	for i := range 101 {
		x := math.Pow(256, float64(i)/100-1)
		bound.X, bound.Y = append(bound.X, x), append(bound.Y, math.Sqrt(x))
	}
	left := reports.TheoryPanel{Title: "Mean ratio and bound", X: "r / d", Y: "d_e / d_M", LogX: true, LogY: true, Series: []reports.TheorySeries{bound}}
	right := reports.TheoryPanel{Title: "How near the bound it is", X: "r", Y: "mean of d_e / d_M over √(r/d), 95 % intervals", LogX: true,
		Series: []reports.TheorySeries{{Colour: colourInk, Line: true, X: []float64{1, 256}, Y: []float64{1, 1}}}}
	var ds []int
	for _, c := range p.Cells {
		if !slices.Contains(ds, c.D) {
			ds = append(ds, c.D)
		}
	}
	for i, d := range ds {
		a := reports.TheorySeries{Label: fmt.Sprintf("d = %d", d), Colour: i, Marks: true, Marker: i}
		b := a
		b.Line, b.Dash = false, 1
		exact := reports.TheorySeries{Colour: i, Line: true, Dash: 1}
		for _, c := range p.Cells {
			if c.D != d {
				continue
			}
			x := float64(c.R) / float64(c.D)
			a.X, a.Y = append(a.X, x), append(a.Y, c.Mean)
			b.X, b.Y = append(b.X, float64(c.R)), append(b.Y, c.Mean/c.Bound)
			b.Low, b.High = append(b.Low, (c.Mean-c.Half)/c.Bound), append(b.High, (c.Mean+c.Half)/c.Bound)
			exact.X, exact.Y = append(exact.X, float64(c.R)), append(exact.Y, c.Exact/c.Bound)
		}
		left.Series = append(left.Series, a)
		right.Series = append(right.Series, exact, b)
	}
	return reports.TheoryFigure{
		Slug: "proposition-1", Title: "Proposition 1: the margin that a projection onto a subspace gains", Columns: 2,
		Caption: fmt.Sprintf("Random hyperplanes, data in a random r-dimensional subspace of R^d, %d draws a point. Marks are means of the ratio of both measured margins; lines on the right are its exact mean.", p.Draws),
		Panels:  []reports.TheoryPanel{left, right},
	}
}

func linearFigure(l *theory.LinearLoop) reports.TheoryFigure {
	const d, r = 24, 3
	f := reports.TheoryFigure{Slug: "theorem-1", Title: "Theorem 1: the controlled linear system", Columns: 2,
		Caption: fmt.Sprintf("Squared error of the controlled state (marks) and its bound (lines) after t layers, d = %d, r = %d, for several regularisations c. "+
			"Orthogonal layers make the bound the error; layers far from orthogonal make its γ_t large. Below right, all systems: of %d draws, the one nearest its bound.", d, r, l.Draws)}
	all := reports.TheoryPanel{Title: "All systems", X: "bound", Y: "squared error", LogX: true, LogY: true}
	low, high := math.Inf(1), 0.0
	for i, kind := range []string{"orthogonal", "near-orthogonal", "gaussian"} {
		panel := reports.TheoryPanel{Title: map[string]string{"orthogonal": "Orthogonal layers", "near-orthogonal": "Nearly orthogonal layers", "gaussian": "Gaussian layers"}[kind],
			X: "t", Y: "squared error", LogY: true}
		scatter := reports.TheorySeries{Label: kind, Colour: []int{colourInk, colourFaint, colourFainter}[i], Marks: true, Marker: i + 2}
		var cs []float64
		for _, p := range l.Points {
			if p.Layers == kind {
				scatter.X, scatter.Y = append(scatter.X, p.Bound), append(scatter.Y, p.Error)
				low, high = min(low, p.Bound), max(high, p.Bound)
				if !slices.Contains(cs, p.C) {
					cs = append(cs, p.C)
				}
			}
		}
		for j, c := range cs {
			label := fmt.Sprintf("c = %g", c)
			bound := reports.TheorySeries{Label: label, Colour: j, Line: true, Dash: j}
			measured := reports.TheorySeries{Label: label, Colour: j, Marks: true, Marker: j}
			for _, p := range l.Runs {
				if p.Layers == kind && p.D == d && p.R == r && p.C == c {
					bound.X, bound.Y = append(bound.X, float64(p.T)), append(bound.Y, p.Bound)
					measured.X, measured.Y = append(measured.X, float64(p.T)), append(measured.Y, p.Error)
				}
			}
			panel.Series = append(panel.Series, bound, measured)
		}
		all.Series = append(all.Series, scatter)
		f.Panels = append(f.Panels, panel)
	}
	all.Series = append([]reports.TheorySeries{{Label: "equal", Colour: colourHighlight, Line: true, Dash: 0, X: []float64{low, high}, Y: []float64{low, high}}}, all.Series...)
	f.Panels = append(f.Panels, all)
	return f
}

func nonlinearFigure(l *theory.NonlinearLoop) reports.TheoryFigure {
	const c, direction = 0.1, "random"
	net := -1 // the first of the most curved networks
	gain := 0.0
	for _, p := range l.Points {
		if p.Gain > gain {
			net, gain = p.Net, p.Gain
		}
	}
	series := func(label string, colour, dash, marker int, marks bool) reports.TheorySeries {
		return reports.TheorySeries{Label: label, Colour: colour, Line: true, Dash: dash, Marks: marks, Marker: marker}
	}
	measured, bound, linear := series("measured", colourOne, 1, 0, true), series("bound", colourOther, 0, 1, true), series("its part in ε", colourManifold, 2, 3, true)
	curved, curvedBound := series("measured", colourOne, 1, 0, true), series("bound", colourOther, 0, 1, true)
	overTime, overTimeBound, overTimeLinear := measured, bound, linear
	var limit float64
	for _, p := range l.Points {
		if p.Net == net && p.C == c && p.Direction == direction {
			limit = p.Limit
			if p.T == l.Depth {
				measured.X, measured.Y = append(measured.X, p.Epsilon), append(measured.Y, p.Error)
				bound.X, bound.Y = append(bound.X, p.Epsilon), append(bound.Y, p.Bound)
				linear.X, linear.Y = append(linear.X, p.Epsilon), append(linear.Y, p.Linear)
				curved.X, curved.Y = append(curved.X, p.Epsilon), append(curved.Y, p.Curved)
				curvedBound.X, curvedBound.Y = append(curvedBound.X, p.Epsilon), append(curvedBound.Y, p.CurvedBound)
			}
			if p.Epsilon == p.Limit {
				overTime.X, overTime.Y = append(overTime.X, float64(p.T)), append(overTime.Y, p.Error)
				overTimeBound.X, overTimeBound.Y = append(overTimeBound.X, float64(p.T)), append(overTimeBound.Y, p.Bound)
				overTimeLinear.X, overTimeLinear.Y = append(overTimeLinear.X, float64(p.T)), append(overTimeLinear.Y, p.Linear)
			}
		}
	}
	all := reports.TheoryPanel{Title: "All runs", X: "bound", Y: "error", LogX: true, LogY: true}
	low, high := math.Inf(1), 0.0
	for i, g := range []float64{0, 0.05, 0.2} {
		s := reports.TheorySeries{Label: fmt.Sprintf("gain %g", g), Colour: []int{colourInk, colourFaint, colourFainter}[i], Marks: true, Marker: i + 2}
		for _, p := range l.Points {
			if p.Gain == g && p.T == l.Depth && (g > 0 || p.Direction != "normal") { // flat, a normal z is all but gone
				s.X, s.Y = append(s.X, p.Bound), append(s.Y, p.Error)
				low, high = min(low, p.Bound), max(high, p.Bound)
			}
		}
		all.Series = append(all.Series, s)
	}
	all.Series = append([]reports.TheorySeries{{Label: "equal", Colour: colourHighlight, Line: true, X: []float64{low, high}, Y: []float64{low, high}}}, all.Series...)
	return reports.TheoryFigure{
		Slug: "theorem-2", Title: "Theorem 2: the controlled nonlinear system", Columns: 2,
		Caption: fmt.Sprintf("Networks of %d tanh layers on R^%d with quadratic manifolds of dimension %d. The first three panels are one network with gain %g, c = %g and a random direction; "+
			"ε goes up to the largest that satisfies the theorem's condition, here %.3g. Below right, all networks, c and directions after the last layer.", l.Depth, l.Dimension, l.Rank, gain, c, limit),
		Panels: []reports.TheoryPanel{
			{Title: fmt.Sprintf("Error after %d layers", l.Depth), X: "ε", Y: "error", LogX: true, LogY: true, Series: []reports.TheorySeries{measured, bound, linear}},
			{Title: "Linearisation error: slope 2", X: "ε", Y: "distance from the linearised system", LogX: true, LogY: true, Series: []reports.TheorySeries{curved, curvedBound}},
			{Title: "Over time, at the largest ε", X: "t", Y: "error", LogY: true, Series: []reports.TheorySeries{overTime, overTimeBound, overTimeLinear}},
			all,
		},
	}
}

func bendingFigure(m *theory.ManifoldBending) reports.TheoryFigure {
	analytic := reports.TheorySeries{Label: "analytic", Colour: colourOther, Line: true, Dash: 1}
	differences := reports.TheorySeries{Label: "by differences", Colour: colourOne, Marks: true}
	for i, p := range m.Curve {
		analytic.X, analytic.Y = append(analytic.X, p.S), append(analytic.Y, p.Analytic)
		if i%2 == 0 {
			differences.X, differences.Y = append(differences.X, p.S), append(differences.Y, p.Differences)
		}
	}
	projected := reports.TheorySeries{Label: "by differences", Colour: colourOne, Marks: true}
	image := reports.TheorySeries{Label: "of the layer's image, by differences", Colour: colourFaint, Marks: true, Marker: 5}
	equal := reports.TheorySeries{Label: "analytic", Colour: colourOther, Line: true, Dash: 1}
	for _, p := range m.Manifolds {
		projected.X, projected.Y = append(projected.X, p.Sigma), append(projected.Y, p.Differences)
		if p.T > 0 {
			image.X, image.Y = append(image.X, p.Sigma), append(image.Y, p.Image)
		}
		equal.X, equal.Y = append(equal.X, p.Sigma), append(equal.Y, p.Sigma)
	}
	slices.Sort(equal.X)
	slices.Sort(equal.Y)
	measured := reports.TheorySeries{Label: "measured", Colour: colourOne, Marks: true, Marker: 1}
	leading := reports.TheorySeries{Label: "σ/(√3(1 + c))", Colour: colourManifold, Line: true, Dash: 1}
	k := reports.TheorySeries{Label: "k = 4σ(1 + 2σ)", Colour: colourInk, Line: true}
	for _, p := range m.Growth {
		measured.X, measured.Y = append(measured.X, p.Sigma), append(measured.Y, p.Measured)
		leading.X, leading.Y = append(leading.X, p.Sigma), append(leading.Y, p.Leading)
		k.X, k.Y = append(k.X, p.Sigma), append(k.Y, p.K)
	}
	return reports.TheoryFigure{
		Slug: "curvature", Title: "Curvature of the manifolds, and what it costs", Columns: 3,
		Caption: fmt.Sprintf("Left, the curve of the margins. Middle, the manifolds of tanh networks, measured by projecting onto them and by sending the manifold before through its layer. "+
			"Right, a parabola in the plane, c = %g: the part of the error that is due to curvature, and the theorem's bound.", m.C),
		Panels: []reports.TheoryPanel{
			{Title: "The curve", X: "s", Y: "curvature", Series: []reports.TheorySeries{analytic, differences}},
			{Title: "The networks' manifolds", X: "σ", Y: "second fundamental form", Series: []reports.TheorySeries{equal, projected, image}},
			{Title: "Error by curvature", X: "σ", Y: "difference of the two controls / ε²", LogX: true, LogY: true, Series: []reports.TheorySeries{measured, leading, k}},
		},
	}
}
