package attacks

// quick is version quick, which is none of AutoAttack's own: its verdicts come close to standard's for a small part of
// the passes (docs/measured/attacks.md), as long as only verdicts are asked for ([Options]); otherwise every run goes
// on after its success, which costs most of the saving on models that are easily broken.
//
//	        ℓ∞, ℓ2                         ℓ1
//	first   APGD-CE, 12 steps              APGD-CE, 12 steps, from the clean image
//	then                                   APGD-CE, 100 steps, radii 3ε, 2ε, ε, up to 5 restarts
//	then    APGD on the margin, 60 steps   APGD on the margin, as before
//	last    APGD on the logit difference,  APGD on the logit difference, 100 steps,
//	        60 steps, 5 targets            5 targets, radii 3ε, 2ε, ε, up to 2 restarts
//
// All but the first may give up a run (see reach): most images fall in a few steps or are so far from falling that a
// dozen steps show it.
//
// FAB and Square are left out, which find next to nothing after APGD has been at a model whose gradients are sound,
// and cost most passes. Where gradients vanish or mislead, Square does find something and quick's verdicts are too
// good: Standard has the last word.
//
// It takes from others that passes go to the images that are still unbroken after a short ascent, and near (Adaptive
// Auto Attack, Liu et al. 2022), and that ascents of the difference to a few highest ranked classes replace a long
// untargeted one (minimum-margin attack, Gao et al. 2022). At the same passes DLR breaks fewer. In ℓ1 a run at large
// radii can't succeed before its last stage, though most images of a model that was not trained against attacks fall
// to a few steps at ε. These come first, from the clean image, whose gradient is as good as any for them, and sparser
// than AutoAttack's: a twentieth of the values at once instead of a fifth. There cross-entropy and margin break
// different images, and so do restarts.
//
// None of it needs more than two classes, so that it never falls back.
func quick(norm Norm) []Component {
	if norm == L1 {
		return []Component{
			{"apgd-ce", given{"steps": 12, "from_clean": true, "sparsity": .05}},
			{"apgd-ce", given{"steps": 100, "restarts": 5, "large_radii": true, "give_up": true}},
			{"apgd-dlr", given{"loss": "margin", "steps": 100, "restarts": 5, "large_radii": true, "give_up": true}},
			{"apgd-t", given{"loss": "logit-difference", "steps": 100, "restarts": 2, "targets": 5, "large_radii": true,
				"give_up": true}},
		}
	}
	return []Component{
		{"apgd-ce", given{"steps": 12}},
		{"apgd-dlr", given{"loss": "margin", "steps": 60, "give_up": true}},
		{"apgd-t", given{"loss": "logit-difference", "steps": 60, "targets": 5, "give_up": true}},
	}
}
