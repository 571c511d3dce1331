package heads

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"selfheal/models/onnx"
)

// Part is an image's part of a measure over many images, which is the sum of all values over the sum of all weights.
type Part struct{ Value, Weight float64 }

// Measure returns an image's part of each of the task's measures: the numbers that it has beside how many answers are
// right. A weight of 0 leaves the image out.
type Measure func(answer []float64, truth []float32) []Part

// numbered names measures by their numbers.
func numbered(name string) func(k int) string {
	return func(k int) string { return fmt.Sprint(name, " ", k) }
}

// Over returns the measures of a kind over images, by name, without those that no image has a part in.
func Over(kind string, parts [][]Part) (names []string, values []float64) {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == kind })
	if len(parts) == 0 || i < 0 {
		return nil, nil
	}
	for k := range parts[0] {
		var total Part
		for _, image := range parts {
			total.Value, total.Weight = total.Value+image[k].Value, total.Weight+image[k].Weight
		}
		if total.Weight > 0 {
			names, values = append(names, Kinds[i].measured(k)), append(values, total.Value/total.Weight)
		}
	}
	if name := Kinds[i].mean; name != "" && len(values) > 1 {
		mean := stat.Mean(values[1:], nil)
		names, values = slices.Insert(names, 1, name), slices.Insert(values, 1, mean)
	}
	return names, values
}

// each measures n values of an answer one by one.
func each(n int, part func(k int, answer []float64, truth []float32) Part) Measure {
	return func(answer []float64, truth []float32) []Part {
		parts := make([]Part, n)
		for k := range parts {
			parts[k] = part(k, answer, truth)
		}
		return parts
	}
}

func errorsOf(t Task, answer onnx.Shape) Measure {
	n := asMany(answer)
	period := float32s(t.Period, n)
	return each(n, func(k int, y []float64, truth []float32) Part {
		d := y[k] - float64(truth[k])
		if p := float64(period[k]); p > 0 {
			d = math.Remainder(d, p)
		}
		if d-d != 0 { // no finite answer has a mean with others
			return Part{}
		}
		return Part{math.Abs(d), 1}
	})
}

func labelsOf(t Task, answer onnx.Shape) Measure {
	return each(asMany(answer), func(k int, y []float64, truth []float32) (p Part) {
		if truth[k] >= 0 {
			p.Weight = 1
			p.Value = one((y[k] > t.Threshold) == (truth[k] == 1))
		}
		return p
	})
}

func acceptsOf(t Task, _ onnx.Shape) Measure {
	return func(y []float64, truth []float32) []Part {
		n := len(y)
		alike := Alike(t.Metric, onnx.Each(y, func(v float64) float32 { return float32(v) }), truth[:n])
		accepted := alike > t.Threshold
		if t.Metric == Distance {
			accepted = -alike < t.Threshold
		}
		if truth[n] == 0 {
			return []Part{{one(accepted), 1}, {}}
		}
		return []Part{{}, {one(!accepted), 1}}
	}
}

// overlaps are the share of right pixels and, of each class, its pixels' intersection over union.
func overlaps(t Task, answer onnx.Shape) Measure {
	planes, pixels := int(answer[1]), int(answer[2:].Items())
	classes := max(planes, 2)
	return func(y []float64, truth []float32) []Part {
		parts := make([]Part, 1+classes)
		for i, v := range truth {
			if v == float32(t.Ignored) {
				continue
			}
			top, class := t.classOf(y, planes, pixels, i), int(v)
			parts[0].Value, parts[0].Weight = parts[0].Value+one(top == class), parts[0].Weight+1
			parts[1+top].Weight++
			if top == class {
				parts[1+top].Value++
			} else if class >= 0 && class < classes {
				parts[1+class].Weight++
			}
		}
		return parts
	}
}

// classOf returns the class that a segmentation's answer gives to pixel i.
func (t Task) classOf(y []float64, planes, pixels, i int) (top int) {
	for c := 1; c < planes; c++ {
		if y[c*pixels+i] > y[top*pixels+i] {
			top = c
		}
	}
	if planes == 1 && y[i] > t.Threshold {
		top = 1
	}
	return top
}

// Mask returns the class of each pixel of a segmentation's answer of this shape.
func (t Task) Mask(y []float64, shape onnx.Shape) []float32 {
	shape = planes(shape)
	classes := make([]float32, shape[2:].Items())
	for i := range classes {
		classes[i] = float32(t.classOf(y, int(shape[1]), len(classes), i))
	}
	return classes
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
