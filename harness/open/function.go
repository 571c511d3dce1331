package open

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/models/ort"
)

// FunctionExt ends the path of a model that is no file of a network but a function of the program that started this
// one: [config.Config.Function] asks it. The file only stands for it.
const FunctionExt = ".function"

// asked is the number of images on which a function's answers identify it.
const asked = 16

// function asks the function that a model stands for about the first images of the data set that it is scored on. The
// answers identify it and tell its classes.
func (o *Opener) function(m *config.Model, images string) (f control.Function, err error) {
	if o.Config.Function == nil {
		return f, fmt.Errorf("%s stands for a function of the program that asked for these results; only that can "+
			"attack it", m.Path)
	}
	if !m.Task.Classifies() {
		return f, errors.New("a function gives classes; a task needs a network, which has a head put behind it")
	}
	set, err := o.Scored(o.imagesOf(m, images))
	if err != nil {
		return f, err
	}
	shape := set.Shape()
	f.Shape = attacks.Shape{C: shape[0], H: shape[1], W: shape[2]}
	n := min(asked, set.Len())
	x := make([]float32, 0, n*f.Shape.Size())
	for i := range n {
		im, err := set.Read(i)
		if err != nil {
			return f, err
		}
		x = append(x, im.Pixels...)
	}
	y, labels, err := o.Config.Function(x, [4]int{n, shape[0], shape[1], shape[2]})
	if err != nil {
		return f, err
	}
	f.Labels, f.Classes = labels, len(y)/n
	if labels {
		for _, class := range y {
			f.Classes = max(f.Classes, set.Classes(), int(class)+1, 2)
		}
	}
	hash := sha256.New()
	for _, v := range y {
		hash.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
	}
	f.ID = fmt.Sprintf("%x", hash.Sum(nil))
	if m.SHA256 != "" && !strings.EqualFold(m.SHA256, f.ID) {
		return f, fmt.Errorf("its answers have SHA-256 %s, the config says %s", f.ID, m.SHA256)
	}
	f.Answer = func(x, y []float32, n int) error {
		z, labels, err := o.Config.Function(x, [4]int{n, shape[0], shape[1], shape[2]})
		switch per := len(z) / n; {
		case err != nil:
			return fmt.Errorf("model %s: %w", m.Name, err)
		case labels != f.Labels || !labels && per != f.Classes:
			return Wrong(fmt.Errorf("model %s: the function answers with %d values an image now, and with %d at first",
				m.Name, form(labels, per), form(f.Labels, f.Classes)))
		case !labels:
			copy(y, z)
			return nil
		}
		for i, class := range z {
			if int(class) >= f.Classes {
				return Wrong(fmt.Errorf("model %s: the function answers class %d, and %d classes are known; say how "+
					"many there are by classes", m.Name, int(class), f.Classes))
			}
			y[i*f.Classes+int(class)] = 1
		}
		return nil
	}
	return f, nil
}

// form returns the number of values that a function gives for an image: a label alone, or one for each class.
func form(labels bool, classes int) int {
	if labels {
		return 1
	}
	return classes
}

// openFunction opens a model that is a function.
func (o *Opener) openFunction(pool *ort.Pool, m *config.Model, images string) (*control.Network, error) {
	f, err := o.function(m, images)
	var n *control.Network
	if err == nil {
		n, err = control.NewFunction(pool, m.Name, f)
	}
	if err == nil {
		err = n.Ready()
	}
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	known := Identified(m, f.ID)
	known.Segments = 1
	o.Record.Models[m.Name] = known
	return n, nil
}
