package result

import (
	"fmt"
	"strings"

	"selfheal/internal/lists"
)

// Warning tells a reader of the cell why its number may be weaker than it looks.
type Warning struct {
	ID      string `json:"id"` // of a [WarningKind]
	Message string `json:"message"`
}

// WarningKind is a row of the table of warnings.
type WarningKind struct {
	ID     string
	Number string // what it does to the cell's number, in a line
}

// WarningKinds is the table. docs/warnings.md says of each what it means and what to do.
var WarningKinds []WarningKind

func warning(id, number string) WarningKind {
	k := WarningKind{id, number}
	WarningKinds = append(WarningKinds, k)
	return k
}

// New makes a warning of this kind.
func (k WarningKind) New(format string, args ...any) Warning {
	return Warning{ID: k.ID, Message: fmt.Sprintf(format, args...)}
}

// Signs are the ids of the warnings that are signs that something hides the gradient from attacks, so that the network
// may look more robust than it is (Athalye et al. 2018).
var Signs = lists.Map([]WarningKind{WarnZeroGradient, WarnNotFiniteGradient, WarnUnstableLoss, WarnSquareWins,
	WarnStandsAtEpsilonOne, WarnOptimisationLoop, WarnMaskedByControl, WarnGradientDiffers, WarnOneStepWins,
	WarnTransferWins, WarnPlantedMissed},
	func(k WarningKind) string { return k.ID })

// Effect is the sentence of an id's kind about the number; "" for an id that this version does not know.
func Effect(id string) string {
	if k := lists.Find(WarningKinds, func(k WarningKind) bool { return k.ID == id }); k != nil {
		return strings.Replace(k.Number, "It ", "The number ", 1)
	}
	return ""
}

// WarningIDs lists the ids in the table's order.
func WarningIDs() []string {
	return lists.Map(WarningKinds, func(k WarningKind) string { return k.ID })
}

// The rows.
var (
	WarnConverted = warning("converted",
		"It is the copy's if the copy answers; if it gives gradients alone, the number may be too high.")
	WarnFarCopy         = warning("far-copy", "It may be too high: attacks follow the gradients of another network.")
	WarnRounded         = warning("rounded", "It is the file's, and may be too high by as many images.")
	WarnProbabilities   = warning("probabilities", "It is too high: gradients vanish.")
	WarnNoProbabilities = warning("no-probabilities", "It may be too high: losses and gradients are not the model's.")
	WarnSigmoids        = warning("sigmoids", "It may be too high: gradients vanish.")
	WarnEmbeddings      = warning("embeddings", "It says nothing.")
	WarnClassSubset     = warning("class-subset", "It says nothing if the labels are not the model's.")
	WarnClaimRefuted    = warning("claim-refuted", "It may be too high by as many images.")
	WarnJudgedApart     = warning("judged-apart", "It may be off by as many images either way.")
	WarnZeroGradient    = warning("zero-gradient",
		"It may be too high by as many images; it is told as \"at most\" where they stand.")
	WarnNotFiniteGradient = warning("not-finite-gradient", "It may be too high by as many images.")
	WarnNotFiniteAnswer   = warning("not-finite-answer", "It counts these images as broken.")
	WarnSquareWins        = warning("square-wins", "It may be too high: gradients mislead.")
	WarnPrecisionDiffers  = warning("precision-differs", "It is too high by about the fraction that fell again.")
	WarnCertifiedBroken   = warning("certified-broken", "The proven fraction may be too high by as many images.")
	WarnNotBounded        = warning("not-bounded", "The proven fraction is 0, whatever the control is worth.")
	WarnFewClasses        = warning("few-classes", "It holds, but is not that of the published recipe.")
	WarnClassesLeftOut    = warning("classes-left-out", "It is of the classes that are left.")
	WarnFilesLeftOut      = warning("files-left-out", "It is of fewer images than the folder has files.")
	WarnImagesChanged     = warning("images-changed", "It is of fewer images.")
	WarnPreprocessing     = warning("preprocessing",
		"It is most likely of wrong inputs: too low on clean images, and attacked ones say little.")
	WarnNearChance       = warning("near-chance", "It says nothing: the network guesses.")
	WarnOptimisationLoop = warning("optimisation-loop", "It is too high unless the attack goes through the loop.")
	WarnMaskedByControl  = warning("masked-by-control",
		"It is too high: an attacker who knows the control leaves less.")
	WarnGradientDiffers = warning("gradient-differs", "It is too high if the attacks follow that gradient.")
	WarnOneStepWins     = warning("one-step-wins", "It is too high by these images at least.")
	WarnTransferWins    = warning("transfer-wins", "It is too high by these images at least.")
	WarnRandomized      = warning("randomized",
		"It changes with the seed, and is too high without an attack that averages.")
	WarnUnstableLoss       = warning("unstable-loss", "It may be too high: gradients say little.")
	WarnStandsAtEpsilonOne = warning("stands-at-epsilon-1", "It is no robustness until the cause is known.")
	WarnPlantedMissed      = warning("planted-missed",
		"It is not to be trusted: the attack misses what is known to be there.")
	WarnQuick = warning("quick", "It may be higher than AutoAttack standard's, most often by 0.1 points at most.")
)
