package result

import (
	"selfheal/harness/cell"
	"selfheal/internal/lists"
)

// Mode is a row of the table of attackers' knowledge.
type Mode struct {
	Name  string // in the config and in results
	Title string // at the head of a column
	Made  string // how the adversarial images were made, in a figure or a caption
	Knows string // in sentences whose subject is the attacker
}

// The modes by name.
const (
	Whitebox         = "whitebox"
	Oblivious        = "oblivious"
	WhiteboxDetached = "whitebox-detached"
	WhiteboxThrough  = "whitebox-through"
	Transfer         = "transfer"
)

// Modes is the table of modes. Schema, documentation and reports take their words from it. [Whitebox] is the mode of
// every suite without controls except those in mode transfer, whatever its config says; a config chooses among the
// others.
var Modes = []Mode{
	{Whitebox, "White-box", "made on the network itself",
		"Knows the network, which has no control, and attacks it directly, as attacks on classifiers usually do."},
	{Oblivious, "Oblivious", "made on the undefended network, then given to every defense",
		"Knows the undefended network only. The images are made once per model against it, at full strength, and " +
			"given to every defense. A controlled accuracy says how well the control repairs such images. " +
			"It is no bound for an attacker " +
			"who knows the control."},
	{WhiteboxDetached, "Detached", "made through the defended network, controls constant in the gradient",
		"Runs the defended network. Its gradient holds every control constant, as the paper's own code does. " +
			"How the controls answer to a change of the image is hidden from it."},
	{WhiteboxThrough, "Through", "made through the defended network, the gradient going through the controls too",
		"Runs the defended network. Its gradient goes through the controls too: exactly for greedy control, " +
			"through every step of the solver for msa and pmp."},
	{Transfer, "Transfer", "made on each undefended network of the suite, then given to every network and defense",
		"Knows one undefended network, the source, at which the images are made at full strength. They are given to " +
			"every network of the suite, and to every defense. If the source is another network, the accuracy " +
			"says what an attacker gets who has only a model of their own. It is no bound for one who knows the " +
			"network."},
}

// AttackerOf returns the mode of a suite's results: [Whitebox] if the suite has no control and its images were not
// made on another network, else the config's.
func AttackerOf(mode string, controlled bool) string {
	if controlled || mode == Transfer {
		return mode
	}
	return Whitebox
}

// Controlled returns the suites that have a control, by the defenses of their cells.
func Controlled[C any](cells []C, of func(C) cell.ID) map[string]bool {
	controlled := map[string]bool{}
	for _, c := range cells {
		id := of(c)
		controlled[id.Suite] = controlled[id.Suite] || id.Defense != cell.None
	}
	return controlled
}

// ModeNames lists the modes' names in the table's order. A config can't choose the first.
func ModeNames() []string { return lists.Map(Modes, func(m Mode) string { return m.Name }) }

// ModeOf finds a mode by its name. ok is false for an unknown name.
func ModeOf(name string) (m Mode, ok bool) {
	for _, m := range Modes {
		if m.Name == name {
			return m, true
		}
	}
	return Mode{Name: name, Title: name}, false
}
