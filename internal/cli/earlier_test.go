package cli

import (
	"archive/tar"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/ort"
)

// earlier lists commands on files that earlier versions of the program wrote (scripts/goldens/earlier_results.py), with
// the files that they make, each beside the one whose values it must keep.
var earlier = []struct {
	line string
	same map[string]string
}{
	{"report finished --out again", map[string]string{"again/tables.csv": "finished/tables.csv"}},
	{"report finished --out finished", map[string]string{"finished/tables.csv": "again/tables.csv"}},
	{"report stopped --out so-far", map[string]string{"so-far/tables.csv": "stopped/tables.csv"}},
	{"report killed/selfheal-journal --out so-far-killed", nil},
	{"report shards --out together", map[string]string{"together/tables.csv": "merged/tables.csv",
		"together/records.jsonl": "merged/records.jsonl", "together/gallery.json": "merged/gallery.json"}},
	{"report attacked --out again-attacked", map[string]string{"again-attacked/tables.csv": "attacked/tables.csv"}},
	{"check --baseline baseline.json finished", nil},
	{"compare finished merged attacked --out beside",
		map[string]string{"beside/compare.json": "compared/compare.json"}},
	{"verify --adversarial finished/adversarial/unknown_tiny_one_0.00784314_*.npy --model tiny --dataset test " +
		"--attack one", nil},
	{"verify --adversarial finished/adversarial/unknown_tiny_levels_*.npy --model tiny --dataset test --attack levels",
		nil},
	{"verify --adversarial finished/adversarial/unknown_tiny_fmn_*.npy --model tiny --dataset test --attack fmn", nil},
	{"run --out finished", map[string]string{"finished/results.json": "again/results.json"}}, // it is left unchanged
	{"run --suite patient --out stopped", nil},
	{"run --suite patient --out killed", nil},
	{"run --suite known --shard 2/2 --out alone", nil},
	{"report alone --out again-alone", nil},
	{"fit --control fitted", nil},
	{"fit --control fitted --set controls.fitted.layers.0.embedding.held_out=0", nil},
	{"fit --control long --set controls.long.layers.0.embedding.held_out=0", nil},
}

// refusing lists the commands of [earlier] that this version refuses, by archive and command line, each with words of
// its one-line message.
var refusing = map[string]string{
	"589d1262: run --out finished": "attacks.fmn.recipe: there fmn/1, here fmn/2", // the results can still be read
	// Trainings hold back images since.
	"589d1262: fit --control fitted": "hidden.onnx.csv is there",
	// Controls with constants cost other passes since constants are computed when a network is opened.
	"589d1262: report alone --out again-alone": "other shards have something else: run the shard again with --force",
}

// otherProcessor matches the line that merging prints if this processor is not the one of the earlier results.
var otherProcessor = regexp.MustCompile("the shards ran on 2 kinds of processor, .*\n")

// Results of an earlier version are read as they were meant, or refused in one line. One of the
// two commands that continue a run for seconds needs SELFHEAL_TEST_LARGE.
func TestEarlierResults(t *testing.T) {
	testinput.Runtime(t)
	archives := must.Get(filepath.Glob("internal/cli/testdata/earlier/*.tar.gz"))(t)
	if len(archives) == 0 {
		t.Fatal("no earlier results")
	}
	for _, archive := range archives {
		version := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
		t.Run(version, func(t *testing.T) {
			dir := t.TempDir()
			unpack(t, archive, dir)
			t.Chdir(dir)
			t.Setenv("ONNXRUNTIME_SHARED_LIBRARY", ort.LibraryPath())
			t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
			for path, schema := range map[string]string{"finished/results.json": "results", "baseline.json": "baseline",
				"finished/records.jsonl": "records", "compared/compare.json": "comparison"} {
				validate(t, schema, path)
			}
			must.Do(t, os.CopyFS("again", os.DirFS("finished")))
			for _, c := range earlier {
				if c.line == "run --suite patient --out stopped" && !testinput.Large() {
					continue
				}
				args := strings.Fields(c.line)
				for i, arg := range args {
					if found, _ := filepath.Glob(arg); len(found) == 1 {
						args[i] = found[0]
					}
				}
				code, _, stderr := call(args...)
				stderr = otherProcessor.ReplaceAllString(stderr, "")
				words, refused := refusing[version+": "+c.line]
				switch {
				case refused && (code == exitOK || strings.Count(stderr, "\n") != 1 ||
					!strings.Contains(stderr, words)):
					t.Errorf("%s: exit %d, want one line with %q\n%s", c.line, code, words, stderr)
				case !refused && code != exitOK:
					t.Errorf("%s: exit %d\n%s", c.line, code, stderr)
				case !refused:
					for now, before := range c.same {
						if err := holds(document(t, now), document(t, before)); err != nil {
							t.Errorf("%s: %s beside %s: %v", c.line, now, before, err)
						}
					}
				}
			}
		})
	}
}

func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f := must.Get(os.Open(archive))(t)
	defer f.Close()
	files := tar.NewReader(must.Get(gzip.NewReader(f))(t))
	for {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must.Do(t, err)
		path := filepath.Join(dir, head.Name)
		if head.Typeflag == tar.TypeDir {
			must.Do(t, os.MkdirAll(path, 0o755))
		} else {
			must.Do(t, os.WriteFile(path, must.Get(io.ReadAll(files))(t), 0o644))
		}
	}
}

// document reads a file: JSON, lines of it, or rows of a table by the names of their columns.
func document(t *testing.T, path string) (all []any) {
	t.Helper()
	text := read(t, path)
	if filepath.Ext(path) == ".csv" {
		rows := must.Get(csv.NewReader(strings.NewReader(text)).ReadAll())(t)
		for _, row := range rows[1:] {
			of := map[string]any{}
			for i, name := range rows[0] {
				of[name] = row[i]
			}
			all = append(all, of)
		}
		return all
	}
	for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
		var v any
		must.Do(t, d.Decode(&v))
		all = append(all, v)
	}
	return all
}

// holds returns an error unless now has every value of before: a later version may add fields, and the seconds of
// shards may be added in any order.
func holds(now, before any) error {
	switch before := before.(type) {
	case map[string]any:
		of, ok := now.(map[string]any)
		for name, v := range before {
			if name == "epsilon" && v == 0. && of[name] == nil { // older galleries have 0 for none
				continue
			}
			if err := holds(of[name], v); name != "seconds" && (!ok || err != nil) {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	case []any:
		of, ok := now.([]any)
		if !ok || len(of) != len(before) {
			return fmt.Errorf("%d entries, before %d", len(of), len(before))
		}
		for i, v := range before {
			if err := holds(of[i], v); err != nil {
				return fmt.Errorf("entry %d: %w", i, err)
			}
		}
		return nil
	case float64:
		if v, ok := now.(float64); ok && math.Abs(v-before) <= 1e-9*math.Abs(before) {
			return nil
		}
	default:
		if now == before {
			return nil
		}
	}
	return fmt.Errorf("%v, before %v", now, before)
}
