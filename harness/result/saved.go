package result

import (
	"fmt"
	"strings"

	"selfheal/harness/cell"
)

// SavedSchema names the version of adversarial/index.json's layout.
const SavedSchema = "selfheal.adversarial/1"

// Saved is adversarial/index.json: the arrays of adversarial images in its folder, and whose images their rows are.
type Saved struct {
	Schema string       `json:"schema"` // [SavedSchema]
	Arrays []SavedArray `json:"arrays"`
	// Images lists the images of each data set, in the order of an array's rows.
	Images map[string][]SavedImage `json:"images"`
}

// SavedArray is a file of adversarial images, float32 [N, C, H, W], and the cell of the classifier that they were made
// against.
type SavedArray struct {
	File string `json:"file"` // its name in the folder
	cell.ID
}

// SavedImage is an image of a data set.
type SavedImage struct {
	Image int    `json:"image"` // its id
	Label int    `json:"label"`
	File  string `json:"file,omitempty"` // its path in the data set, if it has a file of its own
}

// ReadSaved reads an adversarial/index.json.
func ReadSaved(path string) (*Saved, error) {
	var s Saved
	if err := read(path, SavedSchema, &s.Schema, &s); err != nil {
		return nil, err
	}
	return &s, nil
}

func (s *Saved) check() error {
	for _, a := range s.Arrays {
		if a.File == "" || strings.ContainsAny(a.File, `/\`) {
			return fmt.Errorf("%q names no array", a.File)
		}
	}
	return nil
}

// WriteSaved writes an adversarial/index.json as [Write] does a results.json.
func WriteSaved(path string, s *Saved) error { return write(path, s) }
