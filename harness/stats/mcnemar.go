package stats

// McNemar returns the p-values of the exact test of McNemar (Psychometrika 12 (1947)
// 153–157; its exact form is the sign test) on images of which lost were right before and
// are wrong now, and won the other way round. Without a change each of the lost + won
// discordant images is lost with probability 1/2. drop is the one-sided p-value of "no more
// are lost than won" and twoSided that of "as many are lost as won", twice the smaller tail
// and at most 1. Without discordant images both are 1. It panics for negative counts.
func McNemar(lost, won int) (drop, twoSided float64) {
	counted("McNemar", min(lost, won), lost+won)
	drop = atLeast(lost, lost+won, 0.5)
	return drop, min(1, 2*drop, 2*atLeast(won, lost+won, 0.5))
}
