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
	Means  string // what happened, and why it matters
	Do     string // what to do
}

// WarningKinds is the table. docs/warnings.md is written from it.
var WarningKinds []WarningKind

func warning(id, number, means, do string) WarningKind {
	k := WarningKind{id, number, means, do}
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
	for _, k := range WarningKinds {
		if k.ID == id {
			return strings.Replace(k.Number, "It ", "The number ", 1)
		}
	}
	return ""
}

// WarningIDs lists the ids in the table's order.
func WarningIDs() []string {
	return lists.Map(WarningKinds, func(k WarningKind) string { return k.ID })
}

// The rows. Means and Do are Markdown.
var (
	WarnConverted = warning("converted",
		"It is the copy's if the copy answers; if it gives gradients alone, the number may be too high.",
		"The model was changed to make it run. Either its float16, bfloat16 or float64 values are computed in "+
			"float32, or its input is uint8 and gets numbers that are not rounded to levels, or it is quantised and "+
			"its gradients pass straight through the rounding ([onnx.md](onnx.md)). If the message says that the "+
			"file gives all answers, the verdicts are the file's own, and only the gradients come from the "+
			"float32 copy; otherwise all numbers do. The true gradient of a rounding is 0 nearly everywhere. "+
			"Passing straight through it is a convention, against which attacks may be weaker than their names say.",
		"Make images on the network before conversion too, where there is one (`mode: transfer`). Look at what "+
			"Square, which takes no gradients, breaks (`square-wins`), and call the number an estimate.")
	WarnFarCopy = warning("far-copy",
		"It may be too high: attacks follow the gradients of another network.",
		"The file itself gives the answers, as it computes in integers or halves, and a copy in float32 gives the "+
			"gradients ([quantised.md](quantised.md)). On more than a tenth of the images that were asked about "+
			"the copy answers otherwise than the file: attacks follow the gradients of another network.",
		"Trust attacks that take no gradients more than the others (Square), and make images on the network before "+
			"conversion, where there is one (`mode: transfer`).")
	WarnRounded = warning("rounded",
		"It is the file's, and may be too high by as many images.",
		"The model takes uint8, that is levels 0 to 255. Attacks leave pixels between them, and the judge asks the "+
			"file about the nearest levels that lie within epsilon. On this fraction of the images the pixels between "+
			"break the opened form of the network, which takes any pixels, and the nearest levels do not break the "+
			"file.",
		"Set `pixels: 8bit` (`--pixels 8bit`): attacks then look among the levels themselves.")
	WarnProbabilities = warning("probabilities",
		"It is too high: gradients vanish.",
		"On every clean image the model's output lies in [0,1] and adds up to 1, to 1e-5: it ends in a softmax (the "+
			"reference AutoAttack's test). Cross-entropy takes the logarithm of a softmax of the output. On "+
			"probabilities its gradients vanish and margins are squeezed into [−1,1], so that the attacks are weaker "+
			"than they should be.",
		"Set `output: probabilities` for the model: the logarithm of its output then serves as logits. Or export the "+
			"network without its last softmax.")
	WarnNoProbabilities = warning("no-probabilities",
		"It may be too high: losses and gradients are not the model's.",
		"The config says `output: probabilities`, but on this fraction of the images the model's output does not add "+
			"up to 1, to 1e-3. The logarithm of the output then serves as logits. If the output is logits already, "+
			"this cuts off all negative values and bends the rest: losses and gradients are not the model's, and "+
			"attacks are weaker.",
		"Remove `output: probabilities`, unless the network gives probabilities of each class on its own (a sigmoid "+
			"for each class).")
	WarnSigmoids = warning("sigmoids",
		"It may be too high: gradients vanish.",
		"On every image each of the model's outputs lies between 0 and 1, and their sum changes from image to image: "+
			"a sigmoid for each class, as networks for several labels an image have it. As logits such outputs are "+
			"squeezed into (0,1), where gradients vanish and attacks are weaker than they should be. A single output "+
			"between 0 and 1 is worse: as a logit it is above 0, which is class 1, on every image.",
		"Export the network without its last sigmoid, which changes no answer. For a single output set "+
			"`output: probabilities` (`--probabilities`).")
	WarnEmbeddings = warning("embeddings",
		"It says nothing.",
		"On every image the model's output is a vector of length 1, to 1e-4: a normalised embedding, as "+
			"face recognition and CLIP compare them. Its largest value is no class, and accuracies say nothing.",
		"Export the network with its classifier behind it: for CLIP the product with the texts' embeddings, "+
			"times the scale. If another output has the classes, `output_name` (`--output-name`) takes it.")
	WarnClassSubset = warning("class-subset",
		"It says nothing if the labels are not the model's.",
		"The data set has fewer classes than the model has outputs, and nothing says which: a folder's classes "+
			"are numbered in the order of their names. With ten folders for a model of a thousand classes, the images "+
			"of the fifth count as right if the model answers its own fifth class, whatever that is.",
		"Name the model's classes in the order of its outputs, by `datasets.NAME.classes`: a folder's images then "+
			"have the place of its name among them as label, and folders for the other classes need not be there.")
	WarnClaimRefuted = warning("claim-refuted",
		"It may be too high by as many images.",
		"An attack returned an image as adversarial, and the judge, which asks the file itself, found it classified "+
			"correctly; so it did with the image that the attack found when it asked the file too. The image counts "+
			"as not broken. If such claims are more than 0.2 % of the images, the model's answers are not "+
			"repeatable: attack and judge speak of different networks.",
		"See `randomized`; then let `selfheal doctor MODEL` compare the gradient's program with the network.")
	WarnJudgedApart = warning("judged-apart",
		"It may be off by as many images either way.",
		"Every image that an attack breaks is judged twice, by the same file in the same way: as the attack returns "+
			"it, and as the run has kept it. On this fraction of the images the second answer was another one. The "+
			"network draws at random, or memory or disk are damaged.",
		"For a network that draws at random set `votes`. Otherwise run again, and distrust the machine if that comes "+
			"to other numbers.")
	WarnZeroGradient = warning("zero-gradient",
		"It may be too high by as many images; it is told as \"at most\" where they stand.",
		"On this fraction of the attacked images a run of an attack began where every value of the gradient was 0, or "+
			"had underflowed (below 1.2e-38). All losses are watched, at the first point of every run over restarts "+
			"and targets (the reference looks at the DLR losses alone). Without a gradient an attack stands still, "+
			"and the image looks robust. An image counts in the cell's `gradient_failures`, and the accuracy is then "+
			"told as \"at most\", if it stands and all runs of all components began so. Usual causes are "+
			"saturation (logits so large that softmax is exactly 1 in float32), a quantised or thresholded input, and "+
			"an operator such as Sign or Round in the path. RobustBench only takes classifiers whose gradients by the "+
			"input are in general not zero.",
		"`selfheal doctor MODEL --data FILE --planted` plants perturbations, and says how many AutoAttack finds and "+
			"whether its numbers can be trusted. "+
			"For saturation use losses that do not depend on the logits' scale, as AutoAttack's `standard` does with "+
			"DLR, and look at what APGD-T and Square still broke. For a quantised input, score the network without "+
			"that layer, or by `bisection` and Square. Do not report the number as robustness before an attack that "+
			"sees through it.")
	WarnNotFiniteGradient = warning("not-finite-gradient",
		"It may be too high by as many images.",
		"On this fraction of the attacked images a loss or a gradient was infinite or NaN. A step along such a "+
			"gradient goes nowhere or to a corner, and the rest of that run is lost. The image may then count as "+
			"robust although it was hardly attacked.",
		"Look for what overflows: very large logits, a division or a logarithm near 0, a solver whose `learning_rate` "+
			"lets the closed loop diverge. `selfheal doctor MODEL` compares the gradient with differences.")
	WarnNotFiniteAnswer = warning("not-finite-answer",
		"It counts these images as broken.",
		"On this fraction of the images that an attack made, the logits were NaN or infinite. NaN is no right answer: "+
			"the image counts as broken, as in the reference AutoAttack. Its margin is `null` in the records.",
		"Look for what overflows inside the ball: a root or a logarithm of a number below 0, a division by 0. The "+
			"accuracy holds for the network as it is; a network without that fault may be more robust.")
	WarnSquareWins = warning("square-wins",
		"It may be too high: gradients mislead.",
		"Square, which sees no gradients, broke more than one image, and more than 0.2 % of all, that the gradient "+
			"attacks before it in the same recipe had left. This holds for every version of AutoAttack; in the "+
			"reference the test cannot fire in `plus`. A gradient tells more than queries do. If queries win, "+
			"gradients mislead: the usual sign of gradient masking (Athalye, Carlini and Wagner 2018; Croce and Hein "+
			"2020).",
		"Read the number as an upper bound that is not tight. Give Square more `queries` and `restarts`, try `plus`, "+
			"and for a controlled network attack through the control (`mode: whitebox-through`).")
	WarnPrecisionDiffers = warning("precision-differs",
		"It is too high by about the fraction that fell again.",
		"The attack ran in bf16 or tf32, and some of the images that it left fell when they were attacked again in "+
			"float32. A sample is: a twentieth of what stands, at least 50 images. The cell's `agreement` says how "+
			"many, and so how far the accuracy is from what the same attack finds in float32; verdicts stay as they "+
			"were.",
		"Run the attack with `precision: f32` where the difference matters.")
	WarnCertifiedBroken = warning("certified-broken",
		"The proven fraction may be too high by as many images.",
		"An image is certified, and broken all the same within what is certified. Bounds allow no such image: the run "+
			"ends with an error. With smoothing, the smoothed classifier answers another class on an attack's image "+
			"that lies within the certified radius of the clean one, and the answers of its samples leave no doubt (a "+
			"two-sided binomial test at the certificate's alpha). Each certificate may be wrong with probability "+
			"alpha, so that among hundreds of images one such is chance. If chance does not explain them, the run "+
			"ends with an error: the certificate or the program is wrong.",
		"Nothing for a single image. For more look at `randomized`: a certificate is of a base classifier that "+
			"always answers the same image the same way.")
	WarnNotBounded = warning("not-bounded",
		"The proven fraction is 0, whatever the control is worth.",
		"A certificate by bounds was asked for of a control whose closed loop has none: it holds an operator without "+
			"bounds, or its solver unrolls to more nodes than a graph may have. None of the cell's images is proven, "+
			"which says nothing of the control.",
		"Certify it by smoothing, which takes any classifier, or take an embedding of the operators that "+
			"[certificates.md](certificates.md) lists, under greedy control.")
	WarnFewClasses = warning("few-classes",
		"It holds, but is not that of the published recipe.",
		"The model has fewer classes than a loss of the recipe needs: 3 for DLR, 4 for targeted DLR. The attack "+
			"climbs the loss's numerator instead, the margin and the logit difference to the target; the recipe's "+
			"name says `-few`. The numbers are sound, but not those of AutoAttack's published recipe, which is "+
			"undefined there. Square is left out in ℓ2 and ℓ1 for rows of features, as its windows need images.",
		"Name the recipe as it stands in the cell when you compare.")
	WarnClassesLeftOut = warning("classes-left-out",
		"It is of the classes that are left.",
		"A limit took the first images of a data set whose classes are mixed, and with them so few classes that "+
			"others, for which there was room, have no image. The numbers describe the classes that are left, and "+
			"say little of the network.",
		"Take images evenly: `sample: {n: 1000, per_class: true}` instead of `limit`. A `limit` does so by itself "+
			"where images are sorted by class.")
	WarnFilesLeftOut = warning("files-left-out",
		"It is of fewer images than the folder has files.",
		"A folder of images holds files that are no PNG, JPEG or WebP, folders in a class's folder, or files beside "+
			"the classes' folders. They are not read. `datasets.NAME.left_out` in results.json counts them and names "+
			"the first. Hidden files and notes (.txt, .csv, .json, .md and such) do not count.",
		"Convert images of other kinds, and bring those in deeper folders up to their class's.")
	WarnImagesChanged = warning("images-changed",
		"It is of fewer images.",
		"Files of a data set can't be read: a link leads nowhere, a file is damaged, empty, no image of its kind, or "+
			"a grey one of 16 bits. They are left out; the ids of the others stay what they are, and "+
			"`datasets.NAME.left_out` in results.json counts them and gives reasons for the first.",
		"Mend or remove the files that are named.")
	WarnPreprocessing = warning("preprocessing",
		"It is most likely of wrong inputs: too low on clean images, and attacked ones say little.",
		"The network is right on more clean images when it takes them in another usual way than the one given: "+
			"in [0,1], [0,255] or [-1,1], or by the mean and deviation of ImageNet, CIFAR-10, CIFAR-100 or MNIST. At "+
			"most 1,000 of the scored images are tried, and the difference is more than chance: "+
			"McNemar's exact test on them, corrected by Holm for the ways that were tried, at 5 %. Most often the "+
			"mean and deviation were forgotten. Clean and robust accuracy are then those of a network that sees "+
			"other images than it was trained on.",
		"Paste the flags, or the config's line, that the message has. If the training code says otherwise, it is "+
			"right: the message tells what fits these images.")
	WarnNearChance = warning("near-chance",
		"It says nothing: the network guesses.",
		"The accuracy on clean images cannot be told from that of guessing: its 95 % interval reaches down to 1 in "+
			"the number of classes, on 20 images or more. Most often the network sees other images than it was "+
			"trained on: a wrong or missing mean and std, pixels up to 255 instead of 1, channels in another order "+
			"(BGR), or labels numbered otherwise. Every number of that row is then meaningless.",
		"Check `preprocess`, the data set's `format` and its `classes` against the training code. Take more images if "+
			"there are few.")
	WarnOptimisationLoop = warning("optimisation-loop",
		"It is too high unless the attack goes through the loop.",
		"The control solves an optimisation problem for every image while the network runs (`msa` or `pmp`; greedy "+
			"control is one pass and that of its embeddings). Reports mark such rows with †. RobustBench leaves such "+
			"defenses out of its leaderboards, as it does those that are random or have no gradients: they make "+
			"standard attacks fail without being more robust, cost much more to attack, and have to be judged by an "+
			"attack made for them. An oblivious number of such a defense says how well it repairs, not what it "+
			"withstands.",
		"Give the mark along with the number, and beside it a suite with `mode: whitebox-through`, whose gradient "+
			"goes through every step of the solver. The report then puts the attackers side by side.")
	WarnMaskedByControl = warning("masked-by-control",
		"It is too high: an attacker who knows the control leaves less.",
		"The accuracy of this oblivious cell lies more than 10 points above what the same attack made through the "+
			"control leaves in the same run, on the same images. The numbers of images do not explain it: the two 95 "+
			"% intervals do not meet. The control repairs images made without knowledge of it, which is the paper's "+
			"main setting, but an attacker who knows it gets past: part of the oblivious number is gradients that the "+
			"control hides.",
		"Report both numbers; the lower one bounds robustness.")
	WarnGradientDiffers = warning("gradient-differs",
		"It is too high if the attacks follow that gradient.",
		"Along the gradient of the margin, by a twentieth of a grey level back and forth, the margin of the median "+
			"image (of 32 that the network is right on, 8 behind a control) changes by less than three quarters or "+
			"more than five quarters of what the gradient says. Gradients of trained networks are right within 3 %. "+
			"Here the loss is flat or jumps where the gradient promises a slope: thresholds, rounding, or only the "+
			"largest values. Quantised networks and those that take uint8, whose gradients pass through a rounding, "+
			"are not probed.",
		"Attack it with AutoAttack's version `adaptive`, which follows slopes and means of gradients, too.")
	WarnOneStepWins = warning("one-step-wins",
		"It is too high by these images at least.",
		"FGSM, a single step, breaks images that this attack of many steps has left at the same epsilon: more than 1, "+
			"and more than 0.2 % of the images. More steps cannot do worse unless the gradient leads them astray "+
			"(Athalye et al. 2018).",
		"Count an image as broken if either breaks it (`run --union`), and take AutoAttack's version `adaptive`.")
	WarnTransferWins = warning("transfer-wins",
		"It is too high by these images at least.",
		"Images that the same attack made on another network break images that it left when it knew this one: more "+
			"than 1, and more than 0.2 % of the images. An attacker who knows a network cannot do worse, unless the "+
			"network hides its gradient (Athalye et al. 2018).",
		"Count an image as broken if either breaks it (`run --union`), and take AutoAttack's version `adaptive`.")
	WarnRandomized = warning("randomized",
		"It changes with the seed, and is too high without an attack that averages.",
		"Among 5 passes of one clean image, two gave answers whose normalised logits lie more than 1e-4 apart (the "+
			"reference's test). A random classifier has no single verdict on an image: attack and judge see different "+
			"networks, one gradient is only a sample, and another seed gives other numbers. RobustBench only takes "+
			"classifiers whose forward pass is deterministic.",
		"Make the model deterministic if the randomness is left over from training (Dropout, random crops). Otherwise "+
			"give it [`votes`](models.md#networks-that-draw-at-random): its answer is then that of many passes, and "+
			"attacks average over passes.")
	WarnUnstableLoss = warning("unstable-loss",
		"It may be too high: gradients say little.",
		"Noise of half a grey level, which no image shows, changes the margin of the median image by more than 10 % "+
			"(the mean over 10 neighbours; trained networks are at 1 % and below). On so rough a surface the gradient "+
			"at a point says nothing about the next one, and gradient attacks walk astray (the unstable-loss "+
			"indicator of Pintor et al. 2022). Thresholds, quantised inputs and hash-like layers do that, and so may "+
			"a control whose solver has not settled.",
		"Trust Square and attacks with averaged gradients (`eot_iter`) more than the rest. For a control, a smaller "+
			"`learning_rate` or more `inner` steps smooth the loop.")
	WarnStandsAtEpsilonOne = warning("stands-at-epsilon-1",
		"It is no robustness until the cause is known.",
		"Images that stood an ℓ∞ attack still stand when epsilon is 1, where any image may become any other (APGD on "+
			"the margin, 20 steps; up to 32 images, 8 of a controlled network). With an unbounded perturbation an "+
			"attack must break everything (Athalye et al. 2018; Carlini et al. 2019). If it does not, the attack "+
			"fails for another reason than robustness: vanished gradients, a loop that hides them, a fault.",
		"Look at the other warnings of the cell first, above all `zero-gradient` and `unstable-loss`. Until the cause "+
			"is known the cell's accuracy is no robustness.")
	WarnPlantedMissed = warning("planted-missed",
		"It is not to be trusted: the attack misses what is known to be there.",
		"In some of the images a perturbation was planted: for these, a readout of the network's own features takes "+
			"the place of its last layer, such that one known point of the ball is misclassified and random points "+
			"are not (Zimmermann et al. 2022). The cell's own attack, with its own parameters, missed two at least, "+
			"and more than one in 20. AutoAttack finds all or nearly all in networks whose gradients lead somewhere; "+
			"one step of FGSM, or twenty of PGD at 8/255, find few. A run plants so many that it takes about a tenth "+
			"more passes, and more if the attack misses them, at most 64.",
		"Take a stronger attack (AutoAttack). If that misses them too, the network hides its gradients: see the "+
			"cell's other warnings.")
	WarnQuick = warning("quick",
		"It may be higher than AutoAttack standard's, most often by 0.1 points at most.",
		"The number is of AutoAttack's version `quick`, runs of APGD that give up early: a fortieth of `standard`'s "+
			"passes, in ℓ1 a twenty-third. On three networks that it was not chosen by (1,000 images each) it left at "+
			"most 0.1 points more than `standard` in each norm "+
			"([measured/attacks.md](measured/attacks.md#quick-beside-standard)). It has neither FAB nor Square: where "+
			"gradients vanish or mislead it may leave much more.",
		"Use it to see regressions, and `standard` for a number that is published.")
)
