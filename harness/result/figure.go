package result

// Figure is a row of the table of figures. Its files are NAME-OF.png, .svg and .pdf.
type Figure struct {
	Name  string
	Of    string // the last part of a file's name: SUITE, FIGURE
	Shows string // for docs/results.md
}

// The figures by name.
const (
	RadarFigure       = "radar"
	CurveFigure       = "curve"
	SolverFigure      = "solver"
	WaterfallFigure   = "waterfall"
	ControlFigure     = "control"
	CorruptionsFigure = "corruptions"
	CertifiedFigure   = "certified"
	QueriesFigure     = "queries"
	SidesFigure       = "sides"
	BracketFigure     = "bracket"
	TransferFigure    = "transfer"
	TheoryFigure      = "theory"
)

// Figures is the table, in a page's order. Reports, the names of a run's files and docs/results.md are made from it.
var Figures = []Figure{
	{RadarFigure, "SUITE", "accuracy per attack, undefended and controlled; bars below three axes, and where an " +
		"attack has several strengths"},
	{CurveFigure, "SUITE", "accuracy against epsilon, where there is data for it ([below](#robustness-curves))"},
	{SolverFigure, "SUITE", "objective and accuracy against plain passes, where the suite asks for a " +
		"[solver study](config.md#solver)"},
	{WaterfallFigure, "SUITE", "accuracy on clean images and after each component of the attacks that have several, " +
		"each component's loss in a tint: a chart a model and attack, of the undefended network and, in white-box " +
		"suites, of each control. No charts are drawn when there are more than 12: the page's and the Markdown's " +
		"tables of components stand for them"},
	{ControlFigure, "SUITE", "[control traces](#control-traces): ‖u_t‖ by layer, where there are several, and how " +
		"far the objective lies from its greedy start after each sweep; for up to six networks under a control, " +
		"beyond that the page's tables stand for it"},
	{CorruptionsFigure, "SUITE", "accuracy by [common corruption](#common-corruptions), undefended and controlled"},
	{CertifiedFigure, "SUITE", "[certified accuracy](certificates.md) of smoothed classifiers against the ℓ2 radius, " +
		"undefended and controlled"},
	{QueriesFigure, "SUITE", "accuracy against queries, under attacks that see no gradients and count them"},
	{SidesFigure, "SUITE", "accuracy against the side of a patch, where an attack has several"},
	{BracketFigure, "SUITE", "what [brackets](certificates.md#the-bracket-of-every-image) know of every radius: the " +
		"fraction of images proven and the fraction left by attacks, with what lies between them shaded"},
	{TransferFigure, "SUITE", "in mode [transfer](config.md#transfer), the accuracy of every network on the images " +
		"made on each: a chart an attack and defense"},
	{TheoryFigure, "FIGURE", "the checks of `selfheal theory`, a figure an experiment"},
}

// FigureFiles returns patterns, as of package path, that match the names of figures' files.
func FigureFiles() (patterns []string) {
	for _, f := range Figures {
		patterns = append(patterns, f.Name+"-*.png", f.Name+"-*.svg", f.Name+"-*.pdf")
	}
	return patterns
}
