package run

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"selfheal/harness/folder"
	"selfheal/internal/must"
	"selfheal/internal/sameend"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// A run that is stopped again and again inside its attacks goes on from where they were, and comes to the end of one
// that is not stopped, with its passes counted once.
func TestInterim(t *testing.T) {
	testinput.Runtime(t)
	keepEvery = 2 * time.Millisecond
	defer func() { keepEvery = 5 * time.Second }()
	const config = testplan.Bundled + `
save_adversarial: true
attacks:
  ce: {kind: apgd-ce, norm: l1, epsilon: 2, steps: 25, restarts: 2}
  targeted: {kind: apgd-t, norm: linf, epsilon: 2/255, steps: 25, targets: 2}
  fab: {kind: fab-t, norm: l2, epsilon: 0.1, steps: 25, targets: 2}
  pgd: {kind: pgd, norm: l2, epsilon: 0.1, steps: 40, restarts: 2, pixels: 8bit}
  square: {kind: square, norm: l2, epsilon: 0.1, queries: 150}
suites:
  all: {dataset: test, models: [robust], attacks: [ce, targeted, fab, pgd, square]}
`
	p := testplan.Plan(t, config, 2, 8, "datasets.test.limit=3")
	end, dir := filepath.Join(t.TempDir(), "end"), filepath.Join(t.TempDir(), "run")
	must.Get(Run(t.Context(), p, Options{Out: end}))(t)
	rng := rand.New(rand.NewPCG(1, 2))
	const most = 8 // stops: each opens the network anew
	stops := 0
	for {
		ctx, stop := context.WithCancel(t.Context())
		began, later := time.Now(), time.Duration(rng.IntN(60))*time.Millisecond
		enough := stops >= most
		go func() { // a random time after an attack has kept its state
			for ctx.Err() == nil && (enough || !noted(dir, began)) {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(later)
			stop()
		}()
		_, err := Run(ctx, p, Options{Out: dir})
		stop()
		if err == nil {
			break
		}
		if stops++; !errors.Is(err, context.Canceled) || stops > 1000 {
			t.Fatalf("after %d stops: %v", stops, err)
		}
	}
	t.Logf("%d stops", stops)
	if stops < 3 {
		t.Errorf("%d stops inside an attack", stops)
	}
	must.Do(t, sameend.Check(end, dir))
}

// noted reports whether an attack of the run in a folder has kept a state since some time.
func noted(dir string, since time.Time) bool {
	notes, err := os.ReadDir(filepath.Join(dir, folder.WorkFolder, "notes"))
	return err == nil && slices.ContainsFunc(notes, func(e fs.DirEntry) bool {
		info, err := e.Info()
		return err == nil && info.ModTime().After(since)
	})
}
