package cli

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/testbrowser"
)

// openReport opens a run's report in a browser: it fetches nothing, complains of nothing and
// shows how to repeat the run. Args are what the run was called with.
func openReport(t *testing.T, page string, args []string) {
	path, err := filepath.Abs(page)
	if err != nil {
		t.Fatal(err)
	}
	p := testbrowser.Open(t, testbrowser.Start(t), path)
	for _, width := range []int64{1280, 390} {
		p.Size(width, 844)
		p.Check(page)
		if wide := testbrowser.Eval[int](p, "document.documentElement.scrollWidth"); wide > int(width) {
			t.Errorf("the page is %d pixels wide on a screen of %d", wide, width)
		}
	}
	command := testbrowser.Eval[string](p, "document.querySelector('#provenance code').textContent")
	for _, a := range slices.Concat([]string{"selfheal"}, args) {
		if !strings.Contains(command, a) {
			t.Errorf("the command %s lacks %s", command, a)
		}
	}
	p.Quiet()
}
