package figure

import (
	"fmt"
	"math"
	"slices"

	"selfheal/control/theory"
	"selfheal/internal/lists"
	"selfheal/reports/figure/chart"
)

// Colours of the theory's figures by meaning. They index a theme's lines.
const (
	class2    = 0 // class −1, a bound
	class1    = 1 // class 1, a measurement
	manifold  = 2
	highlight = 3
	faint     = 4
	fainter   = 5
)

// plane returns a panel over a field's box; colours maps the field's values to colours, nil for shades.
func plane(title string, f *theory.Field, colours map[float64]int, series ...chart.Series) chart.Plot {
	return chart.Plot{Title: title, Square: true, Series: series, Field: f, Classes: colours,
		Box: [4]float64{f.Box[0][0], f.Box[0][1], f.Box[1][0], f.Box[1][1]}}
}

func sides(title string, f *theory.Field, series ...chart.Series) chart.Plot {
	return plane(title, f, map[float64]int{-1: class2, 1: class1}, series...)
}

// byLabel returns two series of points, one for each class.
func byLabel(what string, at []theory.Point, labels []int, markers [2]int) []chart.Series {
	out := []chart.Series{chart.Marked(what+", class 1", class1, markers[0]),
		chart.Marked(what+", class 2", class2, markers[1])}
	for i, p := range at {
		s := &out[min(max(1-labels[i], 0), 1)]
		s.Add(p[0], p[1])
	}
	return out
}

// Theory draws the experiments.
func Theory(r *theory.Result) []chart.Figure {
	return []chart.Figure{
		defenceFigure(r.LinearDefence), marginFigure(r.Margins), ratioFigure(r.ProjectedRatio),
		linearFigure(r.LinearLoop), nonlinearFigure(r.NonlinearLoop), bendingFigure(r.Curvature),
	}
}

func defenceFigure(l *theory.LinearDefence) chart.Figure {
	whole := func(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
	clean, perturbed, controlled := whole(l.AccuracyClean), whole(l.AccuracyPerturbed), whole(l.AccuracyControlled)
	points := slices.Concat(byLabel("clean", l.Clean, l.Labels, [2]int{0, 1}),
		byLabel("perturbed", l.Perturbed, l.Labels, [2]int{2, 4}))
	return chart.Figure{
		Slug: "linear-defence", Title: "Linear reactive defence", Columns: 2,
		Caption: fmt.Sprintf("Two classes on a line, and a linear classifier that crosses it at %.3g radians. "+
			"Accuracy on clean points %s, on perturbed ones %s, after control %s. "+
			"The loss is the running loss: the squared distance from the line, shaded where it is small. "+
			"The projection takes the classifier's margin from %.3f to %.3f.",
			l.Angle, clean, perturbed, controlled, l.Margin, l.ProjectedMargin),
		Panels: []chart.Plot{
			sides("(a) Classifier F: "+clean+" clean, "+perturbed+" perturbed", l.Regions, points...),
			plane("(b) Loss ‖(I − P)x‖²", l.Loss, nil, points...),
			plane("(c) Controlled points: "+controlled, l.Loss, nil,
				byLabel("controlled", l.Controlled, l.Labels, [2]int{3, 3})...),
			sides("(d) Classifier behind the projection", l.Projected, points...),
		},
	}
}

func marginFigure(m *theory.Margins) chart.Figure {
	data := append([]chart.Series{chart.Lined("manifold M", manifold, 1).Along(m.Curve...)},
		byLabel("data", m.Data, m.Labels, [2]int{0, 1})...)
	with := func(more ...chart.Series) []chart.Series { return slices.Concat(data[:1], more, data[1:]) }
	shortest := func(way [2]theory.Point) []chart.Series {
		return append(with(chart.Lined("Euclidean margin", chart.Ink, 1).Along(way[:]...)),
			chart.Marked("", chart.Ink, 3).Along(way[1]))
	}
	parts := plane("(c) Partitions by classifier and projection", m.Partitions,
		map[float64]int{0: class1, 1: fainter, 2: class2, 3: faint}, data...)
	for i, at := range m.PartitionText {
		parts.Texts = append(parts.Texts, chart.Text{X: at[0], Y: at[1], Text: string(rune('A' + i))})
	}
	return chart.Figure{
		Slug: "margins", Title: "Margins on a curve", Columns: 2,
		Caption: fmt.Sprintf("A binary data set on a curve M and a linear classifier F. "+
			"d_M(F) = %.4f along the curve, d_e(F) = %.4f in the plane, and d_e(F∘E) = %.4f behind the projection E "+
			"onto the curve. F says class 1 in A and B, class 2 in C and D. E takes A and D to the upper part of M, "+
			"B and C to the lower one. So F∘E says class 1 in A and D.", m.Manifold, m.Euclidean, m.Projected),
		Panels: []chart.Plot{
			sides(fmt.Sprintf("(a) Along the manifold: 2·d_M = %.3f", 2*m.Manifold), m.Regions,
				with(chart.Lined("geodesic", highlight, 0).Along(m.Geodesic...))...),
			sides(fmt.Sprintf("(b) In the plane: d_e = %.3f", m.Euclidean), m.Regions, shortest(m.EuclideanWay)...),
			parts,
			sides(fmt.Sprintf("(d) Behind the projection: d_e = %.3f", m.Projected), m.Composite,
				shortest(m.ProjectedWay)...),
		},
	}
}

func ratioFigure(p *theory.ProjectedRatio) chart.Figure {
	bound := chart.Lined("bound √(r/d)", chart.Ink, 0)
	one := chart.Lined("", chart.Ink, 0).Along(theory.Point{1, 1}, theory.Point{256, 1})
	for i := range 101 {
		x := math.Pow(256, float64(i)/100-1)
		bound.Add(x, math.Sqrt(x))
	}
	left := chart.Plot{Title: "Mean ratio and bound", X: "r / d", Y: "d_e / d_M", LogX: true, LogY: true,
		Series: []chart.Series{bound}}
	right := chart.Plot{Title: "How near the bound it is", X: "r", Y: "mean of d_e / d_M over √(r/d), 95 % intervals",
		LogX: true, Series: []chart.Series{one}}
	for i, d := range lists.Distinct(p.Cells, func(c theory.RatioCell) int { return c.D }) {
		ratio, exact := chart.Marked(fmt.Sprintf("d = %d", d), i, i), chart.Lined("", i, 1)
		near := ratio
		for _, c := range p.Cells {
			if r := float64(c.R); c.D == d {
				ratio.Add(r/float64(d), c.Mean)
				near.Add(r, c.Mean/c.Bound)
				near.Low = append(near.Low, (c.Mean-c.Half)/c.Bound)
				near.High = append(near.High, (c.Mean+c.Half)/c.Bound)
				exact.Add(r, c.Exact/c.Bound)
			}
		}
		left.Series, right.Series = append(left.Series, ratio), append(right.Series, exact, near)
	}
	return chart.Figure{
		Slug: "proposition-1", Title: "Proposition 1: the margin that a projection onto a subspace gains", Columns: 2,
		Caption: fmt.Sprintf("Random hyperplanes, data in a random r-dimensional subspace of R^d, %d draws a point. "+
			"Marks are means of the ratio of both measured margins; lines of the second panel are its exact mean.",
			p.Draws),
		Panels: []chart.Plot{left, right},
	}
}

// against returns a panel of measured errors against their bounds, with the line on which both are equal.
func against(title, y string, scatters []chart.Series) chart.Plot {
	of, _ := chart.Plot{Series: scatters}.Reach()
	equal := chart.Lined("equal", highlight, 0).Along(theory.Point{of[0], of[0]}, theory.Point{of[1], of[1]})
	return chart.Plot{Title: title, X: "bound", Y: y, LogX: true, LogY: true,
		Series: append([]chart.Series{equal}, scatters...)}
}

// systemMarks returns the marks of the i-th kind of system in such a panel.
func systemMarks(label string, i int) chart.Series {
	return chart.Marked(label, []int{chart.Ink, faint, fainter}[i], i+2)
}

func linearFigure(l *theory.LinearLoop) chart.Figure {
	const d, r = 24, 3
	f := chart.Figure{Slug: "theorem-1", Title: "Theorem 1: the controlled linear system", Columns: 2,
		Caption: fmt.Sprintf("Squared error of the controlled state (marks) and its bound (lines) after t layers, "+
			"d = %d, r = %d, for several regularisations c. Orthogonal layers make the bound the error; layers far "+
			"from orthogonal make its γ_t large. The last panel has all systems: of %d draws, the one "+
			"nearest its bound.", d, r, l.Draws)}
	titles := []string{"Orthogonal layers", "Nearly orthogonal layers", "Gaussian layers"}
	var all []chart.Series
	for i, kind := range []string{"orthogonal", "near-orthogonal", "gaussian"} {
		panel := chart.Plot{Title: titles[i], X: "t", Y: "squared error", LogY: true}
		dots := systemMarks(kind, i)
		points := lists.Only(l.Points, func(p theory.LoopPoint) bool { return p.Layers == kind })
		for _, p := range points {
			dots.Add(p.Bound, p.Error)
		}
		for j, c := range lists.Distinct(points, func(p theory.LoopPoint) float64 { return p.C }) {
			label := fmt.Sprintf("c = %g", c)
			bound, measured := chart.Lined(label, j, j), chart.Marked(label, j, j)
			for _, p := range l.Runs {
				if p.Layers == kind && p.D == d && p.R == r && p.C == c {
					bound.Add(float64(p.T), p.Bound)
					measured.Add(float64(p.T), p.Error)
				}
			}
			panel.Series = append(panel.Series, bound, measured)
		}
		all, f.Panels = append(all, dots), append(f.Panels, panel)
	}
	f.Panels = append(f.Panels, against("All systems", "squared error", all))
	return f
}

func nonlinearFigure(l *theory.NonlinearLoop) chart.Figure {
	const c, direction = 0.1, "random"
	var most theory.NonlinearPoint // the first of the most curved networks
	for _, p := range l.Points {
		if p.Gain > most.Gain {
			most = p
		}
	}
	three := func() []chart.Series {
		out := []chart.Series{chart.Lined("measured", class1, 1), chart.Lined("bound", class2, 0),
			chart.Lined("its part in ε", manifold, 2)}
		for i, marker := range []int{0, 1, 3} {
			out[i].Marks, out[i].Marker = true, marker
		}
		return out
	}
	byEpsilon, curved, overTime := three(), three()[:2], three()
	var limit float64
	for _, p := range l.Points {
		if p.Net != most.Net || p.C != c || p.Direction != direction {
			continue
		}
		limit = p.Limit
		for i, y := range []float64{p.Error, p.Bound, p.Linear} {
			if p.T == l.Depth {
				byEpsilon[i].Add(p.Epsilon, y)
			}
			if p.Epsilon == p.Limit {
				overTime[i].Add(float64(p.T), y)
			}
		}
		if p.T == l.Depth {
			curved[0].Add(p.Epsilon, p.Curved)
			curved[1].Add(p.Epsilon, p.CurvedBound)
		}
	}
	var all []chart.Series
	for i, g := range []float64{0, 0.05, 0.2} {
		dots := systemMarks(fmt.Sprintf("gain %g", g), i)
		for _, p := range l.Points { // for a flat network the normal component of z is almost 0
			if p.Gain == g && p.T == l.Depth && (g > 0 || p.Direction != "normal") {
				dots.Add(p.Bound, p.Error)
			}
		}
		all = append(all, dots)
	}
	return chart.Figure{
		Slug: "theorem-2", Title: "Theorem 2: the controlled nonlinear system", Columns: 2,
		Caption: fmt.Sprintf("Networks of %d tanh layers on R^%d with quadratic manifolds of dimension %d. "+
			"The first three panels are one network with gain %g, c = %g and a random direction. "+
			"ε goes up to the largest that satisfies the theorem's condition, here %.3g. "+
			"The last panel has all networks, c and directions after the last "+
			"layer.", l.Depth, l.Dimension, l.Rank, most.Gain, c, limit),
		Panels: []chart.Plot{
			{Title: fmt.Sprintf("Error after %d layers", l.Depth), X: "ε", Y: "error", LogX: true, LogY: true,
				Series: byEpsilon},
			{Title: "Linearisation error: slope 2", X: "ε", Y: "distance from the linearised system",
				LogX: true, LogY: true, Series: curved},
			{Title: "Over time, at the largest ε", X: "t", Y: "error", LogY: true, Series: overTime},
			against("All runs", "error", all),
		},
	}
}

func bendingFigure(m *theory.ManifoldBending) chart.Figure {
	analytic, differences := chart.Lined("analytic", class2, 1), chart.Marked("by differences", class1, 0)
	for i, p := range m.Curve {
		analytic.Add(p.S, p.Analytic)
		if i%2 == 0 {
			differences.Add(p.S, p.Differences)
		}
	}
	projected, equal := chart.Marked("by differences", class1, 0), chart.Lined("analytic", class2, 1)
	image := chart.Marked("of the layer's image, by differences", faint, 5)
	for _, p := range m.Manifolds {
		projected.Add(p.Sigma, p.Differences)
		if p.T > 0 {
			image.Add(p.Sigma, p.Image)
		}
		equal.Add(p.Sigma, p.Sigma)
	}
	slices.Sort(equal.X)
	slices.Sort(equal.Y)
	measured, leading := chart.Marked("measured", class1, 1), chart.Lined("σ/(√3(1 + c))", manifold, 1)
	k := chart.Lined("k = 4σ(1 + 2σ)", chart.Ink, 0)
	for _, p := range m.Growth {
		measured.Add(p.Sigma, p.Measured)
		leading.Add(p.Sigma, p.Leading)
		k.Add(p.Sigma, p.K)
	}
	return chart.Figure{
		Slug: "curvature", Title: "Curvature of the manifolds, and what it costs", Columns: 3,
		Caption: fmt.Sprintf("First the curve of the margins. Second the manifolds of tanh networks: "+
			"measured by projecting onto them, and by sending the manifold before through its layer. "+
			"Third a parabola in the plane, c = %g: the part of the error that is due to curvature, and the "+
			"theorem's bound.", m.C),
		Panels: []chart.Plot{
			{Title: "The curve", X: "s", Y: "curvature", Series: []chart.Series{analytic, differences}},
			{Title: "The networks' manifolds", X: "σ", Y: "second fundamental form",
				Series: []chart.Series{equal, projected, image}},
			{Title: "Error by curvature", X: "σ", Y: "difference of the two controls / ε²", LogX: true, LogY: true,
				Series: []chart.Series{measured, leading, k}},
		},
	}
}
