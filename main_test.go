package main

import (
	"testing"

	"selfheal/harness/config"
	"selfheal/harness/plan"
)

// The program alone runs its own config: every file that the default suites need is built in.
func TestBundledSuitesNeedNoFile(t *testing.T) {
	data, err := files.ReadFile("config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("config.yaml", data, files)
	if err != nil {
		t.Fatal(err)
	}
	if cfg, err = cfg.Selected(nil); err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if missing := p.Missing(""); len(missing) > 0 || len(p.Jobs) == 0 {
		t.Errorf("%d jobs, not built in: %v", len(p.Jobs), missing)
	}
}
