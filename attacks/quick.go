package attacks

// quick is version quick, which is none of AutoAttack's own: its verdicts come close to standard's for a twentieth of
// the passes, as long as only verdicts are asked for ([Options]); otherwise every run goes on after its success,
// which costs most of the saving on models that are easily broken.
//
//	        ℓ∞, ℓ2                     ℓ1
//	first   APGD-CE, 25 steps          APGD-CE, 22 steps, from the clean image
//	then    APGD-T, 21 steps,          APGD on the margin, 20 steps, radii 3ε, 2ε, ε
//	        9 targets
//	last                               APGD on the logit difference, 40 steps,
//	                                   3 targets, radii 3ε, 2ε, ε
//
// FAB and Square are left out, which find next to nothing after APGD has been at a model whose gradients are sound,
// and cost most passes. Where gradients vanish or mislead, Square does find something and quick's verdicts are too
// good: Standard has the last word.
//
// It takes from others that passes go to the images that are still unbroken after a short ascent (Adaptive Auto
// Attack, Liu et al. 2022), and that ascents of the difference to a few highest ranked classes replace a long
// untargeted one (minimum-margin attack, Gao et al. 2022). In ℓ1 a run at large radii can't succeed before its last
// stage, though most images of a model that was not trained against attacks fall to a few steps at ε. These come
// first, from the clean image, whose gradient is as good as any for them, and sparser than AutoAttack's: a twentieth
// of the values at once instead of a fifth.
//
// It falls back with few classes as Standard does.
func quick(norm Norm) []Component {
	if norm != L1 {
		return []Component{{"apgd-ce", given{"steps": 25}}, {"apgd-t", given{"steps": 21}}}
	}
	return []Component{
		{"apgd-ce", given{"steps": 22, "from_clean": true, "sparsity": .05}},
		{"apgd-dlr", given{"loss": "margin", "steps": 20, "large_radii": true}},
		{"apgd-t", given{"loss": "logit-difference", "steps": 40, "targets": 3, "large_radii": true}},
	}
}
