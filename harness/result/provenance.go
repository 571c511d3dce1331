package result

import (
	"fmt"
	"strings"
)

// Dataset identifies the images that were scored, and has every key of the config that chose them.
type Dataset struct {
	N      int    `json:"n"`
	SHA256 string `json:"sha256"` // of the chosen pixels and labels
	Format string `json:"format"`
	// Limit is the smaller of the config's and --limit; absent where neither cut the set.
	Limit   int   `json:"limit,omitempty"`
	Indices []int `json:"indices,omitempty"` // the ids to take, in this order; absent: all
	Classes int   `json:"classes,omitempty"` // how many, where the config says it
	// ClassNames are in the order of the labels; absent where the classes have no names.
	ClassNames []string `json:"class_names,omitempty"`
	LeftOut    *LeftOut `json:"left_out,omitempty"` // absent where nothing is
	Shaping
}

// Shaping has the keys of a config's data set that shape its images. Keys that the config lacks are absent.
type Shaping struct {
	Split string `json:"split,omitempty"` // the part of a set that has several
	Keys  *Keys  `json:"keys,omitempty"`  // where its images and labels are found by name
	// Transform is what is done with each image.
	Transform *Transform `json:"transform,omitempty"`
	Sample    *Sample    `json:"sample,omitempty"` // takes images at random
}

// Images tells a data set's images apart, in its order, so that runs on parts of one set can be compared.
type Images struct {
	IDs []int `json:"ids,omitempty"` // absent: 0 to n − 1
	// Checksums has eight hexadecimal digits an image: the CRC-32C of its bytes and its label.
	Checksums string `json:"checksums"`
}

// Sample takes images at random, after the indices and before the limit.
type Sample struct {
	N        int    `json:"n"`         // images
	PerClass bool   `json:"per_class"` // as many of each class, or one more
	Seed     uint64 `json:"seed"`
}

// LeftOut is what one might miss among a data set's images.
type LeftOut struct {
	Classes int      `json:"classes,omitempty"` // that the limit leaves without images, of which it could take some
	Files   int      `json:"files,omitempty"`   // of a folder, that are not read: they are no images
	Names   []string `json:"names,omitempty"`   // of the first of them
	// Unreadable are image files that are absent, as where a link leads nowhere, or damaged; Reasons are of the first.
	Unreadable int      `json:"unreadable,omitempty"`
	Reasons    []string `json:"reasons,omitempty"`
	Clipped    int      `json:"clipped,omitempty"` // values a hair outside [0,1], which were clipped
}

// Changed says in a line that images are not all there as their files have them; "" where they are.
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

// Transform resizes and crops images, as torchvision's Resize and CenterCrop do on Pillow 13's.
type Transform struct {
	Resize        int    `json:"resize,omitempty"` // pixels of the shorter side; absent: as it is
	Crop          int    `json:"crop,omitempty"`   // pixels of a side of the square in the middle; absent: all
	Interpolation string `json:"interpolation"`    // bilinear or bicubic, with antialiasing
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

// Words say the same to a reader; "" where nothing is said.
func (s Shaping) Words() string {
	var words []string
	if s.Split != "" {
		words = append(words, "split "+s.Split)
	}
	if s.Keys != nil {
		words = append(words, fmt.Sprintf("x is %s, y is %s", s.Keys.X, s.Keys.Y))
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

// Model identifies a network, and says how its file was taken.
type Model struct {
	SHA256     string      `json:"sha256"` // of the file as given
	Parameters int64       `json:"parameters"`
	Segments   int         `json:"segments"`
	FLOPs      int64       `json:"flops,omitempty"` // of one forward pass of one image
	Preprocess *Preprocess `json:"preprocess,omitempty"`
	Layout     string      `json:"layout,omitempty"`      // of its input, where the config says it: nchw or nhwc
	Output     string      `json:"output"`                // logits, probabilities or label
	Votes      int         `json:"votes,omitempty"`       // passes that decide an answer; absent where one does
	OutputName string      `json:"output_name,omitempty"` // where the config chooses one
	Split      []string    `json:"split,omitempty"`       // the boundaries' tensors; absent: the default ones
}

// Network is what identifies a network and says how its file was taken.
type Network struct {
	SHA256     string      `json:"sha256"` // of the file as given
	Preprocess *Preprocess `json:"preprocess,omitempty"`
	Layout     string      `json:"layout,omitempty"`
	Output     string      `json:"output"`
	Votes      int         `json:"votes,omitempty"`
	OutputName string      `json:"output_name,omitempty"`
	Split      []string    `json:"split,omitempty"`
}

// Network is the part of a model that numbers depend on.
func (m Model) Network() Network {
	return Network{m.SHA256, m.Preprocess, m.Layout, m.Output, m.Votes, m.OutputName, m.Split}
}

// Preprocess is (x·Scale − Mean)/Std: one value for all channels, or one a channel.
type Preprocess struct {
	Scale float64   `json:"scale,omitempty"` // absent: 1
	Mean  []float64 `json:"mean"`
	Std   []float64 `json:"std"`
}

// Parameters are settings by name: numbers, true or false, texts. Defaults are among them.
type Parameters map[string]any

// Attack says how an attack of the config was made.
type Attack struct {
	Kind       string      `json:"kind"`
	Title      string      `json:"title"`                // for readers, such as "PGD-40, 2 restarts"
	Version    string      `json:"version,omitempty"`    // AutoAttack's
	Recipe     string      `json:"recipe"`               // with its version, such as pgd/1; a cell's may add -few
	Norm       *string     `json:"norm"`                 // null for corruptions
	Epsilons   []float64   `json:"epsilons"`             // empty for corruptions
	Parameters Parameters  `json:"parameters,omitempty"` // absent where the components have all of them
	Components []Component `json:"components,omitempty"` // in order, of an attack that is made of others
}

// Component is an attack that another is made of.
type Component struct {
	Kind       string     `json:"kind"`
	Parameters Parameters `json:"parameters"`
}

// Control says how a control of the config was made.
type Control struct {
	Solver Parameters `json:"solver"` // its method, and every setting that the method has a use for
	Layers []Layer    `json:"layers"` // in the config's order
}

// Layer is an embedding, and where it stands.
type Layer struct {
	At        string         `json:"at"` // input, last, a boundary or a tensor
	Embedding LayerEmbedding `json:"embedding"`
}

// LayerEmbedding is what a state is drawn towards.
type LayerEmbedding struct {
	Kind string `json:"kind"`
	Fit  string `json:"fit,omitempty"` // linear: the data set it is fitted on
	// FitSHA256 is of that data set's pixels and labels.
	FitSHA256 string  `json:"fit_sha256,omitempty"`
	Variance  float64 `json:"variance,omitempty"` // linear: share of the variance asked for
	Rank      int     `json:"rank,omitempty"`     // linear: number of components asked for
	Path      string  `json:"path,omitempty"`     // onnx
	SHA256    string  `json:"sha256,omitempty"`   // onnx: of the file
	// Files are the files' SHA-256 where {size} in the path stands for several, by that number.
	Files map[string]string `json:"files,omitempty"`
}
