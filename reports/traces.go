package reports

import (
	"fmt"

	"selfheal/reports/figure"
	"selfheal/reports/figure/chart"
	"selfheal/reports/table"
	"selfheal/reports/view"
)

// traceView is a suite's control traces as the page shows them.
type traceView struct {
	Slug, Reading string
	Figure        *chart.Figure // nil where there are too many
	Tables        []table.Table
}

// traces is nil where no cell of the suite has any.
func traces(s table.Suite) *traceView {
	all := s.Traced()
	if len(all) == 0 {
		return nil
	}
	v := &traceView{Slug: s.Slug, Reading: "What the control does to each of its layers, from the input to the " +
		"output: the norm of u_t and the running loss ½‖E_t(z_t) − z_t‖² + (c/2)‖u_t‖², z_t = x_t + u_t, " +
		"means over the images.", Tables: s.TraceTables()}
	if figure := figure.Traces(s.Suite); figure.Panels != nil {
		v.Figure = &figure
	}
	if len(all) > view.MostTraced {
		v.Reading += fmt.Sprintf(" The tables stand for a figure: %d networks under a control are more than one shows.",
			len(all))
	}
	return v
}
