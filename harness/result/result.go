// Package result is the schema of a run's files: results.json, records.jsonl and gallery.json. Runs fill its types
// and call [Write]; readers call [Read], [Records] and [ReadGallery], which refuse files that no run writes. Field
// names are fixed: files of earlier versions stay readable.
package result

import (
	"time"

	"selfheal/harness/cell"
)

// Schema names the version of the result file's layout.
const Schema = "selfheal.results/1"

// File is results.json.
type File struct {
	Schema   string     `json:"schema"`
	Created  time.Time  `json:"created"`
	Finished *time.Time `json:"finished,omitempty"` // absent while cells may be missing
	// of the resolved plan, without keys that no number depends on
	ConfigSHA256 string             `json:"config_sha256"`
	Seed         uint64             `json:"seed"`
	Seeds        []uint64           `json:"seeds,omitempty"`   // all seeds, if there are several
	Command      []string           `json:"command,omitempty"` // the command that repeats the run, word by word
	Environment  Environment        `json:"environment"`
	Datasets     map[string]Dataset `json:"datasets"`
	Models       map[string]Model   `json:"models"`
	Attacks      map[string]Attack  `json:"attacks"`  // the attacks that made cells
	Controls     map[string]Control `json:"controls"` // the controls that made cells
	// Images are the identities of each data set's images; absent in older files.
	Images  map[string]Images `json:"images,omitempty"`
	Suites  []Suite           `json:"suites,omitempty"`
	Fits    []Fit             `json:"fits,omitempty"`
	Cells   []Cell            `json:"cells"`
	Failed  []string          `json:"failed,omitempty"` // why further seeds of some cells have no verdicts
	Solver  []SolverStudy     `json:"solver,omitempty"` // solver studies
	Theory  *Theory           `json:"theory,omitempty"` // its checks and figures are part of the report
	Gallery *Gallery          `json:"-"`                // the content of gallery.json in the same folder; nil for none
}

// Theory identifies the run of the theory's experiments in a report. They depend on a seed alone and take seconds, so
// every rendering makes them again.
type Theory struct {
	Seed uint64 `json:"seed"`
}

// Environment describes the machine and the program of the run.
type Environment struct {
	Selfheal    string `json:"selfheal"`
	Go          string `json:"go"`
	ONNXRuntime string `json:"onnxruntime"`
	Provider    string `json:"provider"`
	Precision   string `json:"precision"` // of attacks' passes: f32, bf16, tf32; verdicts are always of float32
	Workers     int    `json:"workers"`
	Threads     int    `json:"threads,omitempty"` // of one worker's run; 0 in older files
	Batch       int    `json:"batch"`
	Winograd    bool   `json:"winograd,omitempty"` // convolutions were rewritten for the CPU
	CPU         string `json:"cpu"`
	// CPUs are all kinds of processor, if shards of the run had several: last digits may differ between them.
	CPUs []string `json:"cpus,omitempty"`
}

// Suite is a suite's setup, in the config's order, so that reports can be rendered again.
type Suite struct {
	Name     string   `json:"name"`
	Title    string   `json:"title,omitempty"`
	Dataset  string   `json:"dataset"`
	Mode     string   `json:"mode"`            // the first of several
	Modes    []string `json:"modes,omitempty"` // if there are several, each with cells of every control
	Models   []string `json:"models"`
	Controls []string `json:"controls"`
	Attacks  []string `json:"attacks"`
	// Pairs are pairs of the suite's models to compare on the same images.
	Pairs [][]string `json:"pairs,omitempty"`
	// Published are published numbers to show beside the suite's own.
	Published *Published `json:"published,omitempty"`
}

// AttackersOf returns the modes of the suite's cells under a defense. Only cells of crafted images have several.
func (s Suite) AttackersOf(defense string, crafted bool) []string {
	if defense == cell.None || !crafted || s.Modes == nil {
		return []string{s.Mode}
	}
	return s.Modes
}

// Published are accuracies from elsewhere.
type Published struct {
	Source string          `json:"source"`         // a bundled table, as table2-standard, or "config"
	Mode   string          `json:"mode,omitempty"` // the attacker's knowledge: oblivious, whitebox; "": unknown
	Cells  []PublishedCell `json:"cells"`
}

// PublishedCell is one published accuracy. It names model, defense and attack as the suite does, if the suite has
// them, else as its source does.
type PublishedCell struct {
	cell.Row
	cell.Column
	Norm     *string `json:"norm"` // null for "none"
	Accuracy float64 `json:"accuracy"`
}

// Fit describes an embedding that was fitted for a run.
type Fit struct {
	Control  string  `json:"control"`
	Model    string  `json:"model"`
	At       string  `json:"at"`
	Dim      int     `json:"dim"`
	Rank     int     `json:"rank"`
	Variance float64 `json:"variance"` // fraction of the variance kept
	Samples  int     `json:"samples"`
	Cached   bool    `json:"cached"`
	Seconds  float64 `json:"seconds"`
}
