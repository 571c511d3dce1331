package attacks

// quick is version quick, which is none of AutoAttack's own: its verdicts come close to standard's for a twentieth of
// the passes, as long as only verdicts are asked for ([Options]); otherwise every run goes on after its success,
// which costs most of the saving on models that are easily broken.
//
//	        ℓ∞, ℓ2                         ℓ1
//	first   APGD-CE, 12 steps              APGD-CE, 22 steps, from the clean image
//	then    APGD on the margin, 28 steps   APGD on the margin, 40 steps, radii 3ε, 2ε, ε
//	last    APGD on the logit difference,  APGD on the logit difference, 28 steps,
//	        34 steps, 5 targets            5 targets, radii 3ε, 2ε, ε
//
// FAB and Square are left out, which find next to nothing after APGD has been at a model whose gradients are sound,
// and cost most passes. Where gradients vanish or mislead, Square does find something and quick's verdicts are too
// good: Standard has the last word.
//
// It takes from others that passes go to the images that are still unbroken after a short ascent (Adaptive Auto
// Attack, Liu et al. 2022), and that ascents of the difference to a few highest ranked classes replace a long
// untargeted one (minimum-margin attack, Gao et al. 2022). Short runs gain by differences of logits: at the same
// passes, DLR, which the spread of the logits divides, breaks fewer, and so do fewer targets with more steps each or
// more with fewer. In ℓ1 a run at large radii can't succeed before its last stage, though most images of a model that
// was not trained against attacks fall to a few steps at ε. These come first, from the clean image, whose gradient is
// as good as any for them, and sparser than AutoAttack's: a twentieth of the values at once instead of a fifth.
//
// None of it needs more than two classes, so that it never falls back.
func quick(norm Norm) []Component {
	if norm == L1 {
		return []Component{
			{"apgd-ce", given{"steps": 22, "from_clean": true, "sparsity": .05}},
			{"apgd-dlr", given{"loss": "margin", "steps": 40, "large_radii": true}},
			{"apgd-t", given{"loss": "logit-difference", "steps": 28, "targets": 5, "large_radii": true}},
		}
	}
	return []Component{
		{"apgd-ce", given{"steps": 12}},
		{"apgd-dlr", given{"loss": "margin", "steps": 28}},
		{"apgd-t", given{"loss": "logit-difference", "steps": 34, "targets": 5}},
	}
}
