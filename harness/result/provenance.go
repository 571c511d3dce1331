package result

import (
	"fmt"
	"math"
	"strings"

	"selfheal/models/heads"
)

// Dataset identifies the scored images, and has every key of the config that chose them.
type Dataset struct {
	N      int    `json:"n"`
	SHA256 string `json:"sha256"` // of the chosen pixels and labels
	Format string `json:"format"`
	// Limit is the smaller of the config's and --limit; absent if neither cut the set.
	Limit   int   `json:"limit,omitempty"`
	Indices []int `json:"indices,omitempty"` // ids of the images, in order; absent: all
	Classes int   `json:"classes,omitempty"` // number of classes, if the config gives it
	// ClassNames are in the order of the labels; absent if the classes have no names.
	ClassNames []string `json:"class_names,omitempty"`
	LeftOut    *LeftOut `json:"left_out,omitempty"` // absent if nothing is left out
	Shaping
}

// Shaping has the keys of a config's data set that shape its images. Keys that the config lacks are absent.
type Shaping struct {
	Split string `json:"split,omitempty"` // the part of a set that has several
	Keys  *Keys  `json:"keys,omitempty"`  // names of its images and labels
	// Layout is flat for rows of features, [N, d]; absent for images.
	Layout string `json:"layout,omitempty"`
	Box    *Box   `json:"box,omitempty"` // where the features of rows lie
	// Scale turns the values of rows into features: one, or one a feature; absent: 1.
	Scale []float64 `json:"scale,omitempty"`
	// Transform resizes and crops each image.
	Transform *Transform `json:"transform,omitempty"`
	Sample    *Sample    `json:"sample,omitempty"` // takes images at random
}

// Images identifies a data set's images, in its order, so that runs on parts of one set can be compared.
type Images struct {
	IDs []int `json:"ids,omitempty"` // absent: 0 to n − 1
	// Checksums has eight hexadecimal digits an image: the CRC-32C of its bytes and its label.
	Checksums string `json:"checksums"`
}

// Sample takes images at random, after the indices and before the limit.
type Sample struct {
	N        int    `json:"n"`         // number of images
	PerClass bool   `json:"per_class"` // equally many of each class, up to one
	Seed     uint64 `json:"seed"`
}

// LeftOut counts the images of a data set that were left out or changed.
type LeftOut struct {
	// classes that the limit leaves without images although it is large enough for some
	Classes int      `json:"classes,omitempty"`
	Files   int      `json:"files,omitempty"` // files of a folder that are not images, without notes (.txt, .csv, …)
	Names   []string `json:"names,omitempty"` // names of the first of them
	// Unreadable is the number of image files that are missing, such as broken links, or damaged; Reasons are of the
	// first.
	Unreadable int      `json:"unreadable,omitempty"`
	Reasons    []string `json:"reasons,omitempty"`
	Clipped    int      `json:"clipped,omitempty"` // number of values slightly outside [0,1], which were clipped
}

// Changed says in one line that the images differ from their files; "" if they do not.
func (l *LeftOut) Changed() string {
	var notes []string
	if l != nil && l.Unreadable > 0 {
		more := ""
		if l.Unreadable > len(l.Reasons) {
			more = "; …"
		}
		notes = append(notes, fmt.Sprintf("images that can't be read were left out, %d in number: %s%s", l.Unreadable,
			strings.Join(l.Reasons, "; "), more))
	}
	if l != nil && l.Clipped > 0 {
		notes = append(notes, fmt.Sprintf("values that rounding had put outside [0,1] were clipped, %d in number",
			l.Clipped))
	}
	return strings.Join(notes, "; ")
}

// Transform resizes and crops images like torchvision's Resize and CenterCrop on Pillow 13's.
type Transform struct {
	Resize        int    `json:"resize,omitempty"` // pixels of the shorter side; absent: unchanged
	Crop          int    `json:"crop,omitempty"`   // side in pixels of the square in the middle; absent: all
	Interpolation string `json:"interpolation"`    // bilinear or bicubic, with antialiasing
}

// Flat is the layout of rows of features.
const Flat = "flat"

// Box has the least and the largest value of features: one for all, or one a feature. An attack sees a feature v as
// (v − low)/(high − low), so that epsilon is a fraction of each feature's range.
type Box struct {
	Low  []float64 `json:"low"`
	High []float64 `json:"high"`
}

// Ends returns the low and the high end of each of d features, in float32, in the units of the network's input.
func (b *Box) Ends(d int) (ends [2][]float32, err error) {
	for i, v := range [][]float64{b.Low, b.High} {
		if len(v) != 1 && len(v) != d {
			return ends, fmt.Errorf("box: %s has %d values, a row %d features; give one, or one a feature",
				[]string{"low", "high"}[i], len(v), d)
		}
		ends[i] = make([]float32, d)
		for k := range d {
			ends[i][k] = float32(v[k%len(v)])
		}
	}
	for k, low := range ends[0] {
		if !(ends[1][k]-low >= 0) || math.IsInf(float64(ends[1][k]-low), 0) {
			return ends, fmt.Errorf("box: feature %d runs from %v to %v, in float32, which is no range", k, low,
				ends[1][k])
		}
	}
	return ends, nil
}

// Interpolations of a [Transform].
const (
	Bilinear = "bilinear"
	Bicubic  = "bicubic"
)

// Keys are the names of a NumPy archive's arrays, or of a Parquet file's columns.
type Keys struct {
	X string `json:"x"` // the images
	Y string `json:"y"` // the labels
}

// Words describe the shaping to a reader; "" if there is none.
func (s Shaping) Words() string {
	var words []string
	if s.Split != "" {
		words = append(words, "split "+s.Split)
	}
	if s.Keys != nil {
		words = append(words, fmt.Sprintf("x is %s, y is %s", s.Keys.X, s.Keys.Y))
	}
	if s.Layout == Flat {
		words = append(words, "rows of features, epsilon a fraction of each feature's box")
	}
	if t := s.Transform; t != nil {
		if t.Resize > 0 {
			words = append(words, fmt.Sprintf("resized to %d (%s)", t.Resize, t.Interpolation))
		}
		if t.Crop > 0 {
			words = append(words, fmt.Sprintf("cropped to %d", t.Crop))
		}
	}
	if a := s.Sample; a != nil {
		how := "at random"
		if a.PerClass {
			how = "evenly by class"
		}
		words = append(words, fmt.Sprintf("a sample of %d %s, seed %d", a.N, how, a.Seed))
	}
	return strings.Join(words, "; ")
}

// Model identifies a network, and says how its file was interpreted.
type Model struct {
	SHA256     string      `json:"sha256"` // of the file as given
	Parameters int64       `json:"parameters"`
	Segments   int         `json:"segments"`
	FLOPs      int64       `json:"flops,omitempty"` // of one forward pass of one image
	Preprocess *Preprocess `json:"preprocess,omitempty"`
	Layout     string      `json:"layout,omitempty"`      // of its input, if the config gives it: nchw or nhwc
	Output     string      `json:"output"`                // logits, probabilities or label
	Votes      int         `json:"votes,omitempty"`       // passes that decide an answer; absent for one
	OutputName string      `json:"output_name,omitempty"` // if the config chooses one
	Split      []string    `json:"split,omitempty"`       // the boundaries' tensors; absent: the default ones
	Task       *Task       `json:"task,omitempty"`        // absent for classification
}

// Task describes a model's task.
type Task struct {
	heads.Settings
	SHA256 string `json:"sha256,omitempty"` // of the file of its head or its texts
}

// Network is the part of a model that numbers depend on.
type Network struct {
	SHA256     string      `json:"sha256"` // of the file as given
	Preprocess *Preprocess `json:"preprocess,omitempty"`
	Layout     string      `json:"layout,omitempty"`
	Output     string      `json:"output"`
	Votes      int         `json:"votes,omitempty"`
	OutputName string      `json:"output_name,omitempty"`
	Split      []string    `json:"split,omitempty"`
	Task       *Task       `json:"task,omitempty"`
}

// Network returns the part of a model that numbers depend on.
func (m Model) Network() Network {
	return Network{m.SHA256, m.Preprocess, m.Layout, m.Output, m.Votes, m.OutputName, m.Split, m.Task}
}

// Preprocess is (x·Scale − Mean)/Std, with one value for all channels or one a channel.
type Preprocess struct {
	Scale float64   `json:"scale,omitempty"` // absent: 1
	Mean  []float64 `json:"mean"`
	Std   []float64 `json:"std"`
}

// Parameters are settings by name, defaults included: numbers, booleans, texts.
type Parameters map[string]any

// Attack is an attack's settings.
type Attack struct {
	Kind       string      `json:"kind"`
	Title      string      `json:"title"`                // for readers, such as "PGD-40, 2 restarts"
	Version    string      `json:"version,omitempty"`    // AutoAttack's
	Recipe     string      `json:"recipe"`               // with its version, such as pgd/1; a cell's may add -few
	Norm       *string     `json:"norm"`                 // null for corruptions
	Epsilons   []float64   `json:"epsilons"`             // empty for corruptions
	Parameters Parameters  `json:"parameters,omitempty"` // absent if the components have all of them
	Components []Component `json:"components,omitempty"` // in order, for an attack that consists of others
}

// Component is a part of an attack that consists of several.
type Component struct {
	Kind       string     `json:"kind"`
	Parameters Parameters `json:"parameters"`
}

// Control is a control's settings.
type Control struct {
	Solver Parameters `json:"solver"` // its method, and every setting that the method uses
	Layers []Layer    `json:"layers"` // in the config's order
}

// Layer is an embedding and its place.
type Layer struct {
	At        string         `json:"at"` // input, last, a boundary or a tensor
	Embedding LayerEmbedding `json:"embedding"`
}

// LayerEmbedding describes the embedding function that a state is controlled towards.
type LayerEmbedding struct {
	Kind string `json:"kind"`
	Fit  string `json:"fit,omitempty"` // linear: the data set that it is fitted on
	// FitSHA256 is the hash of that data set's pixels and labels.
	FitSHA256 string  `json:"fit_sha256,omitempty"`
	Variance  float64 `json:"variance,omitempty"` // linear: wanted fraction of the variance
	Rank      int     `json:"rank,omitempty"`     // linear: wanted number of components
	Path      string  `json:"path,omitempty"`     // onnx
	SHA256    string  `json:"sha256,omitempty"`   // onnx: of the file
	// Files are the files' SHA-256 by number, if {size} in the path stands for several.
	Files map[string]string `json:"files,omitempty"`
}
