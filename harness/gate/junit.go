package gate

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jstemmer/go-junit-report/v2/junit"
)

// WriteJUnit writes the report as JUnit XML: a testsuite for each suite and a testcase for each cell. An inconclusive
// or new cell is skipped with the reason. system-out has the numbers of testcases, one a line.
func (r *Report) WriteJUnit(w io.Writer) error {
	all := junit.Testsuites{Name: "selfheal check"}
	for id, group := range r.suites() {
		suite := junit.Testsuite{Name: plain(group[0].Suite), ID: id,
			Timestamp: r.Results.Created.UTC().Format(time.RFC3339)}
		suite.AddProperty("dataset", plain(group[0].Dataset))
		suite.AddProperty("mode", group[0].Mode)
		suite.AddProperty("rules", r.rules())
		suite.AddProperty("summary", r.Summary)
		for _, n := range r.Notes {
			suite.AddProperty("note", n)
		}
		seconds := 0.0
		for _, c := range group {
			seconds += c.Seconds
			suite.AddTestcase(c.testcase())
		}
		suite.Time = fmt.Sprintf("%.3f", seconds)
		all.AddSuite(suite)
	}
	return writeXML(w, all)
}

func (c Compared) testcase() junit.Testcase {
	t := junit.Testcase{Name: c.name(), Classname: "selfheal." + plain(c.Suite), Time: fmt.Sprintf("%.3f", c.Seconds)}
	why := junit.Result{Message: strings.Join(c.Reasons, "; "), Type: string(c.Outcome)}
	switch c.Outcome {
	case Fail:
		t.Failure = &why
	case Inconclusive:
		why.Message = "inconclusive: " + why.Message
		t.Skipped = &why
	case New:
		why.Message = "new: the baseline lacks this cell"
		t.Skipped = &why
	}
	t.SystemOut = &junit.Output{Data: c.numbers()}
	return t
}

// numbers writes a cell's numbers, each as a line "name value".
func (c Compared) numbers() string {
	lines := fmt.Sprintf("n %d\naccuracy %.4f", c.N, c.Accuracy)
	if x := c.Change; x != nil {
		lines += fmt.Sprintf("\nbaseline %.4f\ndrop %.4f\ndrop_interval %.4f %.4f\nlost %d\nwon %d\np_above %.4g\n"+
			"p_above_holm %.4g\np_below %.4g\np_mcnemar %.4g", x.Before, x.Drop, x.Interval[0], x.Interval[1], x.Lost,
			x.Won, x.Above, x.AboveHolm, x.Below, x.McNemar)
		if x.Detectable != nil {
			lines += fmt.Sprintf("\ndetectable %.4f", *x.Detectable)
		}
	}
	if m := c.Min; m != nil {
		lines += fmt.Sprintf("\nmin %v\nexact_interval %.4f %.4f\nwilson_interval %.4f %.4f\np_min %.4g", m.Min,
			m.Exact[0], m.Exact[1], m.Wilson[0], m.Wilson[1], m.P)
	}
	return lines
}

// WriteJUnitError writes a document whose only testcase says why nothing could be compared.
func WriteJUnitError(w io.Writer, reason error) error {
	suite := junit.Testsuite{Name: "selfheal check", Time: "0.000"}
	suite.AddTestcase(junit.Testcase{Name: "comparison", Classname: "selfheal.check", Time: "0.000",
		Error: &junit.Result{Message: plain(strings.Join(strings.Fields(reason.Error()), " ")), Type: "refused"}})
	all := junit.Testsuites{Name: "selfheal check"}
	all.AddSuite(suite)
	return writeXML(w, all)
}

func writeXML(w io.Writer, all junit.Testsuites) error {
	if _, err := io.WriteString(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"); err != nil {
		return err
	}
	return all.WriteXML(w)
}
