package result

// Mode is a row of the table of what a suite's attacker knows.
type Mode struct {
	Name  string // in the config and in results
	Title string // at the head of a column
	Made  string // of the adversarial images, in a figure or a caption
	Knows string // in sentences, whose subject is the attacker
}

// The modes by name.
const (
	Oblivious        = "oblivious"
	WhiteboxDetached = "whitebox-detached"
	WhiteboxThrough  = "whitebox-through"
)

// Modes is the table, by what the attacker knows. Schema, documentation and reports take their words from it.
var Modes = []Mode{
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
}

// Whitebox is the attacker of a suite without controls, whatever its mode. Results and configs keep the mode.
var Whitebox = Mode{"white-box", "White-box", "made on the network itself",
	"Knows the network, which has no control, and attacks it directly, as attacks on classifiers usually do."}

// AttackerOf is what a suite's mode means: where the suite has no control, [Whitebox].
func AttackerOf(mode string, controlled bool) Mode {
	if !controlled {
		return Whitebox
	}
	m, _ := ModeOf(mode)
	return m
}

// ModeNames lists the modes' names in the table's order.
func ModeNames() (names []string) {
	for _, m := range Modes {
		names = append(names, m.Name)
	}
	return names
}

// ModeOf finds a mode by its name; ok is false for a name that is not known.
func ModeOf(name string) (m Mode, ok bool) {
	for _, m := range Modes {
		if m.Name == name {
			return m, true
		}
	}
	return Mode{Name: name, Title: name}, false
}
