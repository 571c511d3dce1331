package train

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"selfheal/attacks"
	"selfheal/internal/lists"
	"selfheal/internal/memory"
	"selfheal/internal/number"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// shard is how many images a run of a graph takes. Workers take a batch's shards in turn, but gradients are added in
// the shards' order, so that a step does not depend on the workers.
const shard = 32

// Loss has the means over a step's batch, measured before the step changed the parameters.
type Loss struct {
	Step           int // from 0
	Network        int // index of the network that the step drew
	CrossEntropy   float64
	Reconstruction float64 // ‖E(x) − x‖²
	Along          float64 // that of the embedding that trains along
	Accuracy       float64
	Rate           float64 // learning rate
}

func Mean(list []Loss) (m Loss) {
	n := float64(max(len(list), 1))
	for _, l := range list {
		m.CrossEntropy += l.CrossEntropy / n
		m.Reconstruction += l.Reconstruction / n
		m.Along += l.Along / n
		m.Accuracy += l.Accuracy / n
	}
	return m
}

func (l Loss) total(weight float64) float64 { return l.CrossEntropy + weight*l.Reconstruction }

// Trainer fits one embedding to one or several networks. It serves one goroutine.
type Trainer struct {
	settings   Settings
	embeddings []*onnx.Graph // E, and that of a later state if it trains along
	parameters []string      // of all of them
	shapes     []onnx.Shape  // of the parameters
	values     [][]float32   // of the parameters
	average    [][]float32   // of the values over the steps; nil if there is none
	settled    [][]float32   // statistics at the average; nil until they are asked for after a step
	running    [][]float32   // running averages of the means and variances of normalisations that learn, by node
	networks   []*frozen
	data       Data
	optimizer  *optimizer
	order      func(epoch int) []int                        // of the images in an epoch
	draw       func(step int) int                           // the network of a step, if there are several
	noise      func(epoch, image int, clean, out []float32) // of objective gaussian
	scatter    func(epoch, image int, w *attacks.Walk)      // to a search's start
	history    []Loss
	epochs     []Epoch
	good       *State      // after the last good epoch
	sum        [][]float64 // sums of gradients, and of statistics times a shard's images
}

// frozen has the programs of a network, one session for each worker.
type frozen struct {
	Network
	step   *ort.Session // loss and gradients by the parameters
	attack *ort.Session // loss and gradient by the image; only if the perturbation is searched
}

// NewTrainer prepares to train an embedding (weights, biases and scales) on the states of networks with the same
// images, states and classes, and along with it, if the networks have a part [Network.Between], the embedding of the
// later state. Errors name what does not fit and operators without a gradient. Close it when done.
func NewTrainer(embeddings []*onnx.Graph, networks []Network, data Data, s Settings) (*Trainer, error) {
	if err := check(networks, data, s); err != nil {
		return nil, err
	}
	if s.Workers = ort.AtMost(s.Workers); s.Workers <= 0 {
		s.Workers = runtime.NumCPU()
	}
	t := &Trainer{settings: s, data: data}
	for _, e := range embeddings {
		e = e.Clone()
		Apart(e)
		names := parametersOf(e)
		if len(names) == 0 {
			return nil, fmt.Errorf("the embedding has no weights that could be trained")
		}
		for _, p := range names {
			v := slices.Clone(e.Consts[p].Floats)
			t.parameters, t.shapes = append(t.parameters, p), append(t.shapes, e.Consts[p].Shape)
			t.values, t.sum = append(t.values, v), append(t.sum, make([]float64, len(v)))
		}
		t.embeddings = append(t.embeddings, e)
	}
	t.noise = s.gaussian
	t.scatter = func(epoch, image int, w *attacks.Walk) { w.Scatter(generator(s.Seed, "start", epoch, image)) }
	t.order = func(epoch int) []int { return order(s.Seed, epoch, len(data.Labels)) }
	t.draw = func(step int) int {
		if s.Draw == EachEpoch {
			return generator(s.Seed, "network of the epoch", step/t.PerEpoch(), 0).IntN(len(networks))
		}
		return generator(s.Seed, "network", step, 0).IntN(len(networks))
	}
	t.optimizer = newOptimizer(s, t.values)
	if s.Average > 0 {
		t.average = lists.Map(t.values, slices.Clone)
	}
	for _, e := range t.embeddings {
		if !learns(e) {
			continue
		}
		if err := t.track(e); err != nil {
			return nil, err
		}
	}
	for _, n := range networks {
		f := &frozen{Network: n}
		t.networks = append(t.networks, f)
		var err error
		if f.step, err = t.open(n, false); err == nil && s.Objective.searched() {
			f.attack, err = t.open(n, true)
		}
		if err != nil {
			t.Close()
			return nil, fmt.Errorf("model %s: %w", n.Name, err)
		}
	}
	return t, nil
}

// Apart gives each use its own copy of a constant that training changes or statistics replace, and reports whether
// one was shared. Exporters store equal constants once, such as all scales and variances of a fresh network.
func Apart(e *onnx.Graph) bool {
	taken := map[string]bool{} // by another use
	for _, n := range e.Nodes {
		for i, in := range n.Inputs {
			taken[in] = taken[in] || !slices.Contains(onnx.TraitsOf(n.Op).Parameters, i)
		}
	}
	shared := false
	for _, n := range e.Nodes {
		for _, i := range onnx.TraitsOf(n.Op).Parameters {
			c, ok := e.Consts[n.Input(i)]
			if !ok || c.DType != onnx.Float {
				continue
			}
			if taken[n.Inputs[i]] {
				n.Inputs[i], shared = e.AddConst(n.Inputs[i], c), true
			}
			taken[n.Inputs[i]] = true
		}
	}
	return shared
}

// track follows the statistics of an embedding's normalisations.
func (t *Trainer) track(e *onnx.Graph) error {
	for _, name := range statisticsOf(e) {
		c, ok := e.Consts[name]
		if !ok {
			return fmt.Errorf("the statistics %q of a normalisation are no constant", name)
		}
		t.running, t.sum = append(t.running, slices.Clone(c.Floats)), append(t.sum, make([]float64, len(c.Floats)))
	}
	return nil
}

// check expects at least one network, image, epoch and image a step.
func check(networks []Network, data Data, s Settings) error {
	if s.Objective == Gaussian && s.Loss != Stability && s.Weight == 0 {
		return fmt.Errorf("the loss mse needs a weight above 0: there is nothing else to minimise")
	}
	widest := s.Norm.Widest(attacks.Shape{C: data.Shape[0], H: data.Shape[1], W: data.Shape[2]})
	if s.Objective.searched() && s.Epsilon > widest {
		return fmt.Errorf("epsilon is %s, but in %s no image is farther than %.4g from another",
			number.Format(s.Epsilon), s.Norm, widest)
	}
	first := networks[0]
	image := onnx.Shape{onnx.Batch, int64(data.Shape[0]), int64(data.Shape[1]), int64(data.Shape[2])}
	for _, n := range networks {
		outside := func(label int) bool { return label < 0 || label >= n.classes() }
		i := slices.IndexFunc(data.Labels, outside)
		switch {
		case !slices.Equal(n.image(), image):
			return fmt.Errorf("model %s takes images of shape %v, the data set has %v", n.Name, n.image(), image)
		case !slices.Equal(n.After.Inputs[0].Shape, first.After.Inputs[0].Shape) && n.Between != nil:
			return fmt.Errorf("models %s and %s have later states of shape %v and %v: one embedding can't serve both",
				first.Name, n.Name, first.After.Inputs[0].Shape, n.After.Inputs[0].Shape)
		case !slices.Equal(n.State(), first.State()) || n.classes() != first.classes():
			return fmt.Errorf("models %s and %s have states of shape %v and %v, %d and %d classes: "+
				"one embedding can't serve both", first.Name, n.Name, first.State(), n.State(), first.classes(),
				n.classes())
		case i >= 0:
			return fmt.Errorf("image %d has the label %d, model %s gives %d classes", i, data.Labels[i], n.Name,
				n.classes())
		}
	}
	return nil
}

func (t *Trainer) open(n Network, byImage bool) (*ort.Session, error) {
	g, err := lossGraph(n, t.embeddings, t.settings, byImage)
	if err != nil {
		return nil, err
	}
	if !t.settings.On.Row().Device() {
		batch := min(t.settings.Batch, len(t.data.Labels))
		if err := room(g, min(batch, shard*t.settings.Workers)); err != nil {
			return nil, err
		}
	}
	return ort.OpenGraphOn(g, t.settings.On, t.settings.Workers)
}

// room returns an error if passes of so many images at once do not fit into memory.
func room(g *onnx.Graph, images int) error {
	weights, item := g.Memory()
	if err := memory.Room(number.Sum(weights, number.Product(int64(images), item))); err != nil {
		return fmt.Errorf("%d images at once %w: make the embedding, the batch or runtime.workers smaller", images, err)
	}
	return nil
}

// Close frees the sessions.
func (t *Trainer) Close() {
	for _, f := range t.networks {
		f.step.Close()
		f.attack.Close()
	}
}

// Steps returns the number of steps of the whole training.
func (t *Trainer) Steps() int { return t.settings.Epochs * t.PerEpoch() }

// PerEpoch returns the number of steps of an epoch.
func (t *Trainer) PerEpoch() int {
	return (len(t.data.Labels) + t.settings.Batch - 1) / t.settings.Batch
}

// Calm returns how many steps at the beginning have no perturbation, though later ones are searched for.
func (t *Trainer) Calm() int {
	if t.settings.Objective != Adversarial {
		return 0
	}
	return int(t.settings.Warmup * float64(t.PerEpoch()))
}

// Skip goes to a step without making those before it, to time it. Such a training is worth nothing.
func (t *Trainer) Skip(step int) { t.history = make([]Loss, step) }

// Done returns how many steps were made.
func (t *Trainer) Done() int { return len(t.history) }

// History lists the losses of all steps made so far.
func (t *Trainer) History() []Loss { return t.history }

// Embeddings returns E, and that of a later state if it trains along, in their present state: with the average of
// their weights, if the settings ask for one.
func (t *Trainer) Embeddings(ctx context.Context) ([]*onnx.Graph, error) {
	if t.average == nil {
		return t.withValues(t.values, t.running), nil
	}
	if t.settled == nil {
		at := *t
		at.values, at.average = t.average, nil
		at.sum = lists.Map(t.sum, func(s []float64) []float64 { return make([]float64, len(s)) })
		var err error
		if t.settled, err = (examiner{&at}).settle(ctx); err != nil {
			return nil, err
		}
	}
	return t.withValues(t.average, t.settled), nil
}

// settle returns the statistics of normalisations at the present weights: means over the images of the last steps.
func (t examiner) settle(ctx context.Context) ([][]float32, error) {
	settled, total := lists.Map(t.running, func(r []float32) []float64 { return make([]float64, len(r)) }), 0
	for k := len(t.history) - 1; k >= 0 && total < settlingImages && len(settled) > 0; k-- {
		images := t.images(k)
		if _, err := t.gradient(ctx, t.networks[t.history[k].Network], k, images); err != nil {
			return nil, err
		}
		total += len(images)
		for i, s := range t.sum[len(t.values):] {
			for j, v := range s {
				settled[i][j] += v
			}
		}
	}
	return lists.Map(settled, func(s []float64) []float32 {
		return lists.Map(s, func(v float64) float32 { return float32(v / float64(total)) })
	}), nil
}

// settlingImages is about how many images give the statistics of averaged weights.
const settlingImages = 4096

// follow moves the average towards the values after so many steps.
func (t *Trainer) follow(steps int) {
	keep := min(t.settings.Average, float64(steps)/float64(steps+10))
	for i, m := range t.average {
		for j, v := range t.values[i] {
			m[j] += float32((1 - keep) * float64(v-m[j]))
		}
	}
}

// withValues returns the embeddings with values of their parameters and their statistics.
func (t *Trainer) withValues(parameters, statistics [][]float32) (all []*onnx.Graph) {
	for _, e := range t.embeddings {
		e = e.Clone()
		set := func(names []string, values *[][]float32) {
			for _, name := range names {
				e.Consts[name] = onnx.FloatTensor(e.Consts[name].Shape, slices.Clone((*values)[0]))
				*values = (*values)[1:]
			}
		}
		set(parametersOf(e), &parameters)
		if learns(e) {
			set(statisticsOf(e), &statistics)
		}
		all = append(all, e)
	}
	return all
}

// Failed is an error that a training would meet again.
type Failed struct{ error }

func Fail(format string, values ...any) error { return Failed{fmt.Errorf(format, values...)} }

// Step makes the next step. After an error the trainer is as it was before, so cancelling ctx loses nothing.
func (t *Trainer) Step(ctx context.Context) (Loss, error) {
	l := Loss{Step: len(t.history)}
	if len(t.networks) > 1 {
		l.Network = t.draw(l.Step)
	}
	images := t.images(l.Step)
	sums, err := t.gradient(ctx, t.networks[l.Network], l.Step, images)
	if err != nil {
		return l, err
	}
	n := float64(len(images))
	l.CrossEntropy, l.Accuracy = sums.CrossEntropy/n, sums.Accuracy/n
	l.Reconstruction, l.Along = sums.Reconstruction/n, sums.Along/n
	if total := l.total(t.weight(l.Step)); !number.Finite(total) {
		return l, Fail("the loss of step %d is %v: lower the learning rate or the weight of the reconstruction",
			l.Step+1, total)
	}
	for _, g := range t.sum {
		for i := range g {
			g[i] /= n
		}
	}
	clip(t.sum[:len(t.values)], t.settings.Clip)
	factor := t.settings.rate(l.Step, t.Steps())
	l.Rate = t.settings.LearningRate * factor
	t.optimizer.update(t.values, t.sum[:len(t.values)], factor)
	t.follow(l.Step + 1)
	t.settled = nil
	for i, mean := range t.sum[len(t.values):] {
		for j, v := range mean {
			t.running[i][j] += momentum * (float32(v) - t.running[i][j])
		}
	}
	t.history = append(t.history, l)
	return l, nil
}

func (t *Trainer) images(step int) []int {
	order, from := t.order(step/t.PerEpoch()), step%t.PerEpoch()*t.settings.Batch
	return order[from:min(from+t.settings.Batch, len(order))]
}

// gradient sums losses over a step's images, and their gradients into t.sum.
func (t *Trainer) gradient(ctx context.Context, f *frozen, step int, images []int) (all Loss, err error) {
	for _, g := range t.sum {
		clear(g)
	}
	shards := slices.Collect(slices.Chunk(images, shard))
	err = ort.InOrder(ctx, t.settings.Workers, len(shards), func(k int) ([]ort.Tensor, error) {
		in, err := t.inputs(ctx, f, step, shards[k])
		if err != nil {
			return nil, err
		}
		return f.step.Run(t.with(step, in))
	}, func(k int, out []ort.Tensor) {
		all.CrossEntropy += sum(out[crossEntropyAt].Data)
		all.Reconstruction += sum(out[reconstructionAt].Data)
		all.Accuracy += float64(t.data.right(shards[k], out[logitsAt].Data))
		if out = out[gradientsAt:]; len(t.embeddings) > 1 {
			last := len(out) - 1
			all.Along += sum(out[last].Data)
			out = out[:last]
		}
		for i, g := range out {
			weight := 1.0
			if i >= len(t.values) { // statistics are means
				weight = float64(len(shards[k]))
			}
			for j, v := range g.Data {
				t.sum[i][j] += weight * float64(v)
			}
		}
	})
	return all, err
}

// inputs returns the inputs of a loss graph for some images of a step, as E sees them, without the parameters.
func (t *Trainer) inputs(ctx context.Context, f *frozen, step int, images []int) ([]ort.Tensor, error) {
	scratch := make([]float32, t.data.size())
	x, label, err := t.data.batch(images, f.classes(), func(i int, out []float32) error {
		return t.data.draw(t.settings.Augment, t.settings.Seed, step/t.PerEpoch(), i, scratch, out)
	})
	if err != nil || !t.settings.Objective.perturbed() {
		return []ort.Tensor{x, label}, err
	}
	seen, err := t.perturb(ctx, f, step, images, x, label)
	return []ort.Tensor{seen, x, label}, err
}

func sum(values []float32) (sum float64) {
	for _, v := range values {
		sum += float64(v)
	}
	return sum
}

// weight returns the weight of the sum over a state's values at a step.
func (t *Trainer) weight(step int) float64 {
	return t.settings.weight(step, t.Steps(), t.PerEpoch(), t.networks[0].State().Items())
}

// with appends a step's weight, the parameters, and the inputs of normalisations, to a graph's other inputs.
func (t *Trainer) with(step int, in []ort.Tensor) []ort.Tensor {
	images := in[0].Shape[0]
	in = append(in, ort.Tensor{Shape: []int64{1}, Data: []float32{float32(t.weight(step))}})
	for i, v := range t.values {
		in = append(in, ort.Tensor{Shape: t.shapes[i], Data: v})
	}
	if len(t.running) > 0 {
		in = append(in, ort.Tensor{Shape: []int64{1}, Data: []float32{1 / float32(images)}})
	}
	return in
}
