package result

import (
	"bytes"
	"fmt"
	"image/png"
	"slices"

	"selfheal/harness/cell"
	"selfheal/internal/number"
)

// GallerySchema names the version of gallery.json's layout.
const GallerySchema = "selfheal.gallery/1"

// Gallery is gallery.json: pictures of a run's images, chosen by a rule.
type Gallery struct {
	Schema       string        `json:"schema"`
	ConfigSHA256 string        `json:"config_sha256"`   // as in results.json
	Notes        []GalleryNote `json:"notes,omitempty"` // what the rule would show and the file lacks
	Cases        []GalleryCase `json:"cases"`
}

// GalleryNote says what a suite's gallery lacks.
type GalleryNote struct {
	Suite   string `json:"suite"`
	Message string `json:"message"`
}

// The kinds of a GalleryCase. In the first two the undefended network is right on the clean image and wrong on the
// adversarial one.
const (
	Healed    = "healed"     // the controlled network is right on the adversarial image
	NotHealed = "not-healed" // the controlled network is wrong on it
	// Broken: the attack was on the case's own defense, which is right on the clean image and wrong on the
	// adversarial one.
	Broken = "broken"
)

// GalleryCase is one image in one cell.
type GalleryCase struct {
	cell.ID
	Norm string `json:"norm"`
	Kind string `json:"kind"`
	// VerdictOnly: the attack ended at its first success.
	VerdictOnly bool   `json:"verdict_only,omitempty"`
	Image       int    `json:"image"`
	File        string `json:"file,omitempty"` // the image's path in its data set, if it has a file of its own
	Label       int    `json:"label"`
	LabelName   string `json:"label_name,omitempty"`
	// Perturbation is the norm of the perturbation, in the attack's norm.
	Perturbation float64 `json:"perturbation"`
	// Undefended are the answers of the undefended network, Controlled those under the defense; null for defense
	// none.
	Undefended GalleryAnswers  `json:"undefended"`
	Controlled *GalleryAnswers `json:"controlled,omitempty"`
	Pictures   GalleryPictures `json:"pictures"`
	// Trace follows the control of the adversarial image: the greedy start and each sweep.
	Trace []GallerySweep `json:"trace,omitempty"`
}

// GalleryAnswers are the answers to the clean and to the adversarial image.
type GalleryAnswers struct {
	Clean       GalleryAnswer `json:"clean"`
	Adversarial GalleryAnswer `json:"adversarial"`
}

// GalleryAnswer is a classifier's answer to an image.
type GalleryAnswer struct {
	Class  int     `json:"class"` // of the largest logit
	Name   string  `json:"name,omitempty"`
	Margin float64 `json:"margin"` // z_y − max other logit
}

// Believable reports whether a case fits its kind, with finite numbers.
func (c *GalleryCase) Believable() bool {
	right := func(a GalleryAnswer) bool { return a.Class == c.Label }
	finite := c.Undefended.Clean.Margin + c.Undefended.Adversarial.Margin
	attacked, healed := c.Undefended, false
	if c.Controlled != nil {
		finite += c.Controlled.Clean.Margin + c.Controlled.Adversarial.Margin
		healed = right(c.Controlled.Adversarial)
		if c.Kind == Broken {
			attacked = *c.Controlled
		}
	}
	for _, s := range c.Trace {
		finite += s.Objective
	}
	return c.Perturbation > 0 && number.Finite(finite) && right(attacked.Clean) && !right(attacked.Adversarial) &&
		healed == (c.Kind == Healed)
}

// GalleryPictures are PNG files of the image's size, 8 bits a channel, base64 in JSON.
type GalleryPictures struct {
	Width       int    `json:"width"`
	Height      int    `json:"height"`
	Clean       []byte `json:"clean"`
	Adversarial []byte `json:"adversarial"`
	// Perturbation is 0.5 + Magnification · (adversarial − clean).
	Perturbation  []byte  `json:"perturbation"`
	Magnification float64 `json:"magnification"`
	// Healed is the controlled input x_0 + u_0 of the adversarial image, clipped to [0,1]; absent if the defense does
	// not control the input.
	Healed []byte `json:"healed,omitempty"`
	// Masks are of a segmentation: the truth, and the answers to the clean image, to the adversarial one, and to this
	// under the control. Absent for others, and the last without a control of the input alone.
	Masks [][]byte `json:"masks,omitempty"`
}

// Bytes returns the size of the PNG files.
func (p GalleryPictures) Bytes() int {
	return len(p.Clean) + len(p.Adversarial) + len(p.Perturbation) + len(p.Healed) + len(slices.Concat(p.Masks...))
}

// Bounds of a gallery, whose pictures become part of a page.
const (
	GalleryCases = 48
	GalleryBytes = 3 << 19 // of PNG files, 1.5 MiB
)

// Bounds on decoding when a gallery is read, as small files may claim many pixels.
const (
	largestSide   = 4096
	galleryPixels = 1 << 26 // pixels of all pictures
)

// GallerySweep is the state of one image's controls at the greedy start or after a sweep.
type GallerySweep struct {
	Objective float64       `json:"objective"`
	Layers    []SolverLayer `json:"layers"`
}

// SolverLayer is the control at one layer, for one image or as a mean over a cell's images.
type SolverLayer struct {
	At          string  `json:"at"`           // as in the config: input, last, a boundary or a tensor
	ControlNorm float64 `json:"control_norm"` // ‖u_t‖
	Loss        float64 `json:"loss"`         // ½‖E_t(x_t + u_t) − (x_t + u_t)‖² + (c/2)‖u_t‖²
}

// ReadGallery reads and checks a gallery.json: its pictures are PNG files of one size, and its traces have the same
// layers.
func ReadGallery(path string) (*Gallery, error) {
	var g Gallery
	if err := read(path, GallerySchema, &g.Schema, &g); err != nil {
		return nil, err
	}
	return &g, nil
}

func (g *Gallery) check() error {
	size, pixels := 0, 0
	for _, c := range g.Cases {
		p := c.Pictures
		size += p.Bytes()
		pixels += (4 + len(p.Masks)) * min(max(p.Width, 0), largestSide) * min(max(p.Height, 0), largestSide)
	}
	if len(g.Cases) > GalleryCases || size > GalleryBytes || pixels > galleryPixels {
		return fmt.Errorf("has %d cases with %d bytes of pictures of %d pixels; no run writes more than %d with %d "+
			"of %d", len(g.Cases), size, pixels, GalleryCases, GalleryBytes, galleryPixels)
	}
	for i, c := range g.Cases {
		if err := c.check(); err != nil {
			return fmt.Errorf("case %d, image %d: %w", i, c.Image, err)
		}
	}
	return nil
}

func (c GalleryCase) check() error {
	switch {
	case c.Kind != Healed && c.Kind != NotHealed && c.Kind != Broken:
		return fmt.Errorf("unknown kind %q", c.Kind)
	case (c.Controlled == nil) != (c.Defense == cell.None):
		return fmt.Errorf("defense %q, but answers under it: %v", c.Defense, c.Controlled != nil)
	}
	p := c.Pictures
	for _, one := range []struct {
		name string
		data []byte
	}{{"clean", p.Clean}, {"adversarial", p.Adversarial}, {"perturbation", p.Perturbation}, {"healed", p.Healed}} {
		if one.name == "healed" && one.data == nil {
			continue
		}
		if err := p.check(one.data); err != nil {
			return fmt.Errorf("its picture %q %w", one.name, err)
		}
	}
	if len(p.Masks) > 4 {
		return fmt.Errorf("it has %d masks, more than 4", len(p.Masks))
	}
	for i, mask := range p.Masks {
		if err := p.check(mask); err != nil {
			return fmt.Errorf("its mask %d %w", i, err)
		}
	}
	for _, s := range c.Trace {
		if len(s.Layers) != len(c.Trace[0].Layers) {
			return fmt.Errorf("its trace has sweeps of %d and of %d layers", len(c.Trace[0].Layers), len(s.Layers))
		}
	}
	return nil
}

func (p GalleryPictures) check(picture []byte) error {
	size, err := png.DecodeConfig(bytes.NewReader(picture))
	switch {
	case err != nil:
		return fmt.Errorf("is no PNG file: %w", err)
	case size.Width != p.Width || size.Height != p.Height:
		return fmt.Errorf("has %d×%d pixels, not %d×%d", size.Width, size.Height, p.Width, p.Height)
	case size.Width > largestSide || size.Height > largestSide:
		return fmt.Errorf("has %d×%d pixels, more than %d a side", size.Width, size.Height, largestSide)
	}
	if _, err := png.Decode(bytes.NewReader(picture)); err != nil {
		return fmt.Errorf("is no whole PNG file: %w", err)
	}
	return nil
}

// WriteGallery writes a gallery.json as [Write] does a results.json.
func WriteGallery(path string, g *Gallery) error { return write(path, g) }
