package attacks

// quick returns the components of version quick, which is not one of AutoAttack's own. Its verdicts come close to
// standard's for a small part of the passes (docs/measured/attacks.md), as long as only verdicts are asked for
// ([Options]). Otherwise every run goes on after its success, which costs most of the saving on models that are easily
// broken.
//
//	        ℓ∞, ℓ2                         ℓ1
//	first   APGD-CE, 12 steps              APGD-CE, 12 steps, from the clean image
//	then                                   APGD-CE, 100 steps, radii 3ε, 2ε, ε, up to 5 restarts
//	then    APGD on the margin, 60 steps   APGD on the margin, as before
//	last    APGD on the logit difference,  APGD on the logit difference, 100 steps,
//	        60 steps, 5 targets            5 targets, radii 3ε, 2ε, ε, up to 2 restarts
//
// All runs but the first may give up (see reach): most images fall in a few steps, or are so far from falling that a
// dozen steps show it.
//
// FAB and Square are left out. They cost most passes and find almost nothing after APGD on a model whose gradients are
// sound. If gradients vanish or mislead, Square does find something and quick's verdicts are too good: standard is then
// the one to trust.
//
// Two ideas come from others: spend passes on images that are unbroken after a short ascent but close to breaking
// (Adaptive Auto Attack, Liu et al. 2022), and replace a long untargeted ascent by ascents of the difference to a few
// highest ranked classes (minimum-margin attack, Gao et al. 2022). At the same number of passes DLR breaks fewer
// images. In ℓ1 a run at large radii can't succeed before its last stage, though most images of a model that was not
// trained against attacks fall to a few steps at ε. A short run at ε therefore comes first. It starts at the clean
// image, whose gradient suffices for such images, and is sparser than AutoAttack's: it moves a twentieth of the values
// at once instead of a fifth. In ℓ1 cross-entropy and margin break different images, and so do restarts.
//
// No component needs more than two classes, so quick never falls back.
func quick(norm Norm) []Component {
	if norm == L1 {
		return []Component{
			{Kind: "apgd-ce", Parameters: given{"steps": 12, "from_clean": true, "sparsity": .05}},
			{Kind: "apgd-ce", Parameters: given{"steps": 100, "restarts": 5, "large_radii": true, "give_up": true}},
			{Kind: "apgd-dlr", Parameters: given{"loss": "margin", "steps": 100, "restarts": 5, "large_radii": true,
				"give_up": true}},
			{Kind: "apgd-t", Parameters: given{"loss": "logit-difference", "steps": 100, "restarts": 2, "targets": 5,
				"large_radii": true, "give_up": true}},
		}
	}
	return []Component{
		{Kind: "apgd-ce", Parameters: given{"steps": 12}},
		{Kind: "apgd-dlr", Parameters: given{"loss": "margin", "steps": 60, "give_up": true}},
		{Kind: "apgd-t", Parameters: given{"loss": "logit-difference", "steps": 60, "targets": 5, "give_up": true}},
	}
}
