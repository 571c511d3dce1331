package attacks

// Quick is version quick, which is none of AutoAttack's own: its verdicts come close to
// [Standard]'s for a twentieth of the passes, as long as only verdicts are asked for
// ([VerdictOnly]); otherwise every run goes on after its success, which costs most of
// the saving on models that are easily broken.
//
//	        ℓ∞, ℓ2                     ℓ1
//	first   APGD-CE, 25 steps          APGD-CE, 22 steps, from the clean image
//	then    APGD-T, 21 steps,          APGD on the margin, 20 steps, radii 3ε, 2ε, ε
//	        9 targets
//	last                               APGD on the logit difference, 40 steps,
//	                                   3 targets, radii 3ε, 2ε, ε
//
// FAB and Square are left out, which find next to nothing after APGD has been at a
// model whose gradients are sound, and cost most passes. Where gradients vanish or
// mislead, Square does find something and quick's verdicts are too good: Standard has
// the last word.
//
// What it takes from others: passes go to the images that are still unbroken after a
// short ascent (Adaptive Auto Attack, Liu et al. 2022), and ascents of the difference to
// a few highest ranked classes replace a long untargeted one (minimum-margin attack, Gao
// et al. 2022). In ℓ1 a run at large radii can't succeed before its last stage, though
// most images of a model that was not trained against attacks fall to a few steps at ε.
// These come first, from the clean image, whose gradient is as good as any for them, and
// sparser than AutoAttack's: a twentieth of the values at once instead of a fifth.
//
// It falls back with few classes as Standard does.
func Quick(norm Norm, epsilon float64, classes int) (Recipe, error) {
	apgd := APGD{Norm: norm, Epsilon: epsilon, Restarts: 1}
	first := apgd
	first.Loss, first.Steps = CrossEntropy, 25
	if norm != L1 {
		targeted := apgd
		targeted.Loss, targeted.Steps, targeted.Targets = TargetedDLR, 21, suiteTargets
		return recipe("quick", norm, epsilon, classes, first, targeted)
	}
	first.Steps, first.fromClean, first.sparsity = 22, true, .05
	margin, difference := apgd, apgd
	margin.Loss, margin.Steps, margin.LargeRadii = Margin, 20, true
	difference.Loss, difference.Steps, difference.Targets, difference.LargeRadii = LogitDifference, 40, 3, true
	return recipe("quick", norm, epsilon, classes, first, margin, difference)
}
