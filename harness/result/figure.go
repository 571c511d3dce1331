package result

// The figures by name. Their files are NAME-SUITE.png, .svg and .pdf, those of [TheoryFigure] NAME-EXPERIMENT.
const (
	RadarFigure       = "radar"
	CurveFigure       = "curve"
	SolverFigure      = "solver"
	WaterfallFigure   = "waterfall"
	ControlFigure     = "control"
	CorruptionsFigure = "corruptions"
	MeasuresFigure    = "measures"
	CertifiedFigure   = "certified"
	QueriesFigure     = "queries"
	SidesFigure       = "sides"
	BracketFigure     = "bracket"
	TransferFigure    = "transfer"
	TheoryFigure      = "theory"
)

// Figures is the table, in a page's order. docs/results.md says what they show.
var Figures = []string{RadarFigure, CurveFigure, SolverFigure, WaterfallFigure, ControlFigure, CorruptionsFigure,
	MeasuresFigure, CertifiedFigure, QueriesFigure, SidesFigure, BracketFigure, TransferFigure, TheoryFigure}

// FigureFiles returns patterns, as of package path, that match the names of figures' files.
func FigureFiles() (patterns []string) {
	for _, f := range Figures {
		patterns = append(patterns, f+"-*.png", f+"-*.svg", f+"-*.pdf")
	}
	return patterns
}
