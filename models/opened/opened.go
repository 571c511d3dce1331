// Package opened opens model files for batches of images and compares what it opened with the file itself. [Load] and
// [Graph] decode a file and simplify it. If that has changed the meaning of the batch, they run the file in a session
// of its own on some images, one by one, and the opened network on all of them together. They return the network only
// if the answers agree.
package opened

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// images is the number of different images that the comparison uses.
const images = 3

// Load is [Graph] for the file at a path, preprocessed as o says. It also returns the model in one piece. Errors name
// the file.
func Load(path string, o simplify.Options, runtime func() error) (*onnx.Graph, []byte, error) {
	f, err := onnx.Read(path)
	if err != nil {
		return nil, nil, err
	}
	g, err := Graph(f, o, runtime)
	if err == nil {
		err = simplify.Preprocess(g, o)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("model %s: %w", path, err)
	}
	return g, f.Data, nil
}

// Graph decodes a file and prepares it by [simplify.Prepare]. If the network does not answer like the file, Graph opens
// the file as a network for a batch of 1 that keeps images apart; if that does not either, it returns an error. runtime
// loads ONNX Runtime when it is needed; nil: it is loaded already. If it can't be loaded, a notice says that nothing
// was compared.
func Graph(f *onnx.File, o simplify.Options, runtime func() error) (*onnx.Graph, error) {
	g, err := prepare(f, o)
	if err != nil || !g.Opened {
		return g, err
	}
	if ort.LibraryPath() == "" {
		err := errors.New("it is not loaded")
		if runtime != nil {
			err = runtime()
		}
		if err != nil {
			g.Notice(fmt.Sprintf(notHeld+" without ONNX Runtime: %v", err))
			return g, nil
		}
	}
	key := sha256.Sum256(fmt.Append(nil, sha256.Sum256(f.Data), o.Scale, o.Mean, o.Std, o.Layout, o.Output, o.Label,
		o.Literal, o.Box, o.Joined, o.Whole, o.Alone, g.Inputs[0].Shape))
	known, _ := held.LoadOrStore(key, &answer{})
	a := known.(*answer)
	a.once.Do(func() {
		if a.err = hold(f, g, o); a.err == nil || o.Alone {
			return
		}
		alone := o
		alone.Alone = true
		if other, err := prepare(f, alone); err == nil && hold(f, other, o) == nil {
			a.alone, a.err = true, nil
		}
	})
	if a.alone {
		o.Alone = true
		return prepare(f, o)
	}
	return g, a.err
}

const notHeld = "was opened for batches and could not be held against the file"

// answer is the outcome of comparing a file with the network opened from it in some way.
type answer struct {
	once  sync.Once
	alone bool // opened for a batch of 1
	err   error
}

// held caches the answers by file and options: the judge, attacks and each suite may open the same network.
var held sync.Map

func prepare(f *onnx.File, o simplify.Options) (g *onnx.Graph, err error) {
	defer onnx.Refused(&err)
	g = onnx.Sure(onnx.Decode(f.Data))
	return g, simplify.Prepare(g, o)
}

// hold asks the file about each image alone, and the opened network about all of them together. A file that does not
// run, such as one in bfloat16, or that draws at random can't be compared.
func hold(f *onnx.File, g *onnx.Graph, o simplify.Options) error {
	opened := g.Clone()
	if draws, err := simplify.Draws(opened); err != nil || len(draws) > 0 {
		return nil
	}
	taken := max(1, len(o.Joined))
	in, out, err := onnx.Ports(f.Data)
	if err != nil {
		return err
	}
	names := []string{cmp.Or(o.Output, simplify.Scores(out, o.Label))}
	if taken > 1 || names[0] == "" {
		names = onnx.Each(out[:min(taken, len(out))], func(v onnx.Value) string { return v.Name })
	}
	file, err := ort.OpenOriginal("the file", f, names...)
	if err != nil {
		g.Notice(fmt.Sprintf(notHeld+": %v", err))
		return nil
	}
	defer file.Close()
	network, err := open(opened)
	if err != nil {
		return err
	}
	defer network.Close()
	x := draw(g, o)
	item := int(g.Inputs[0].Shape.Items())
	if len(in[0].Shape) == 2 && !o.Literal {
		file.Take(onnx.Shape{max(1, in[0].Shape[0]), int64(item)})
	}
	if last := slices.Contains(g.Notices, simplify.NoticeLast); last || len(in[0].Shape) == 4 && !o.Literal {
		s := g.Inputs[0].Shape
		shape := onnx.Shape{max(1, in[0].Shape[0]), s[1], s[2], s[3]}
		if last {
			shape = onnx.Shape{shape[0], s[2], s[3], s[1]}
		}
		file.Take(shape)
	}
	batch := max(1, file.Inputs()/item)
	y, err := network.Run([]ort.Tensor{{Shape: append(onnx.Shape{images}, g.Inputs[0].Shape[1:]...), Data: x}})
	if err != nil {
		return err
	}
	together := y[0].Data
	alone := make([][]float64, images)
	for k := range alone {
		one := x[k*item : (k+1)*item]
		if alone[k], err = ask(file, g, slices.Repeat(one, batch)); err != nil {
			return err
		}
		alone[k] = alone[k][:len(alone[k])/batch]
		own := together[k*len(together)/images : (k+1)*len(together)/images]
		err := alike(file, g, alone[k], own, slices.Repeat(one, batch))
		if err == nil && g.IsCopy() { // its rounding hides much of the influence of other images in the batch
			err = stays(network, g, one, own)
		}
		if err != nil {
			return fmt.Errorf("image %d of %d: %w: opened for batches it would not compute what the file does; "+
				"export it with an open batch, torch.onnx.export(…, dynamic_shapes=({0: "+
				`torch.export.Dim("batch")},))`, k+1, images, err)
		}
	}
	if batch == 1 {
		return nil
	}
	mixed := []float32{}
	for k := range batch {
		mixed = append(mixed, x[k%images*item:(k%images+1)*item]...)
	}
	rows, err := ask(file, g, mixed)
	if err != nil {
		return err
	}
	for k := range batch {
		own := onnx.Each(alone[k%images], func(v float64) float32 { return float32(v) })
		if alike(file, g, rows[k*len(rows)/batch:(k+1)*len(rows)/batch], own, mixed) != nil {
			return fmt.Errorf("its answer to an image depends on the place in the batch of %d that the file was "+
				"exported with, or on the other images there; export the network for one image", batch)
		}
	}
	return nil
}

// open makes a session for the graph's first output, as floats.
func open(g *onnx.Graph) (*ort.Session, error) {
	g.Outputs = g.Outputs[:1]
	b := &onnx.Builder{G: g, Prefix: "held/"}
	g.Outputs[0].Name = b.OpWith("Cast", onnx.Attrs{"to": int64(onnx.Float)}, g.Outputs[0].Name)
	g.Outputs[0].DType = onnx.Float
	if err := b.Err(); err != nil {
		return nil, err
	}
	g.Prune()
	return ort.OpenGraph(g)
}

// draw makes the images, always the same ones, in the range of the model's own input: values in [0,1] after
// preprocessing, or levels.
func draw(g *onnx.Graph, o simplify.Options) []float32 {
	s := g.Inputs[0].Shape
	item := int(s.Items())
	plane := max(1, item/int(max(1, append(s, 1, 1)[1])))
	of := func(values []float32, c int, none float32) float32 {
		if len(values) == 0 {
			return none
		}
		return values[c%len(values)]
	}
	rng, scale := rand.New(rand.NewPCG(1, uint64(item))), cmp.Or(o.Scale, 1)
	x := make([]float32, images*item)
	for i := range x {
		v, c := rng.Float32(), i%item/plane
		switch {
		case g.Levels:
			v = float32(math.Round(float64(v) * 255))
		case !o.Literal:
			if c < len(o.Box[0]) {
				v = o.Box[0][c] + v*(o.Box[1][c]-o.Box[0][c])
			}
			v = (v*scale - of(o.Mean, c, 0)) / of(o.Std, c, 1)
		}
		x[i] = v
	}
	return x
}

// ask runs the file on the images, in the file's own order of values.
func ask(file *ort.Original, g *onnx.Graph, x []float32) ([]float64, error) {
	if slices.Contains(g.Notices, simplify.NoticeLast) {
		s := g.Inputs[0].Shape
		turned, plane := make([]float32, len(x)), int(s[2]*s[3])
		for i, v := range x {
			image, c, at := i/int(s.Items()), i/plane%int(s[1]), i%plane
			turned[image*int(s.Items())+at*int(s[1])+c] = v
		}
		x = turned
	}
	return file.Run(x)
}

// stays returns an error if the opened network answers an image differently alone than among others.
func stays(network *ort.Session, g *onnx.Graph, one, among []float32) error {
	y, err := network.Run([]ort.Tensor{{Shape: append(onnx.Shape{1}, g.Inputs[0].Shape[1:]...), Data: one}})
	if err != nil {
		return err
	}
	for i, v := range y[0].Data {
		if d := math.Abs(float64(v - among[i])); d > rounding*max(1, math.Abs(float64(v))) {
			return fmt.Errorf("value %d of the opened network's answer is %.9g alone, %.9g among others", i, v,
				among[i])
		}
	}
	return nil
}

// Tolerances, as fractions of the largest output.
const (
	rounding = 1e-4 // for float32 with sums in another order
	steps    = 0.25 // for a file that computes in integers or halves, or rounds: it may differ by some steps
	jump     = 8    // multiple of the change of the file's own answer when the last bits of its input change
)

// alike returns an error if two answers to the file's input x differ by more than rounding. The bound is the usual
// rounding or, if larger, the change of this file's answer when the last bits of its input change.
func alike(file *ort.Original, g *onnx.Graph, want []float64, got []float32, x []float32) error {
	if len(want) != len(got) {
		return fmt.Errorf("the file gives %d values, the opened network %d", len(want), len(got))
	}
	largest, at, worst := 1.0, -1, 0.0
	for i, v := range want {
		if finite := !math.IsInf(v, 0) && v == v; finite {
			largest = max(largest, math.Abs(v))
		}
		apart := math.Abs(v - float64(got[i]))
		if same := v == float64(got[i]) || v != v && got[i] != got[i]; same {
			apart = 0
		}
		if !(apart <= worst) {
			at, worst = i, apart
		}
	}
	tolerance := rounding * largest
	if g.IsCopy() {
		tolerance = steps * largest
	}
	if worst <= tolerance {
		return nil
	}
	turned := slices.Clone(x)
	for i, v := range turned {
		turned[i] = math.Float32frombits(math.Float32bits(v) ^ 1)
	}
	other, err := ask(file, g, turned)
	if err != nil {
		return err
	}
	own := 0.0
	for i := range want {
		if d := math.Abs(other[i] - want[i]); d > own {
			own = d
		}
	}
	if worst <= jump*own {
		return nil
	}
	return fmt.Errorf("value %d of the file's answer is %.9g, that of the opened network %.9g", at, want[at], got[at])
}
