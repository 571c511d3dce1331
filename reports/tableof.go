package reports

// suiteTables are those of a suite.
type suiteTables struct{ *suite }

// reportTables are those of a report and of its suites.
type reportTables struct {
	*view
	Suites []suiteTables
}

func ofView(v *view) reportTables {
	out := reportTables{view: v}
	for _, s := range v.Suites {
		out.Suites = append(out.Suites, suiteTables{s})
	}
	return out
}
