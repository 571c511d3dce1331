package attacks

// Params are what [New] makes an attack from.
type Params struct {
	Norm    Norm
	Epsilon float64
	Options map[string]any
}

// New makes one attack. Use [Setup.Make].
func New(kind string, p Params) (Attack, error) {
	r, err := Setup{Kind: kind, Norm: p.Norm, Parameters: p.Options}.Make(p.Epsilon, 1000)
	if err != nil {
		return nil, err
	}
	return r.Components[0], nil
}

// Parameters are the names of a kind's own parameters.
func Parameters(kind string) (names []string) {
	s, _ := Lookup(kind)
	for _, p := range s.Parameters {
		names = append(names, p.Name)
	}
	return names
}
