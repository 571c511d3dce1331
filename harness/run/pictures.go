package run

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strings"

	"selfheal/attacks"
	"selfheal/harness/dataset"
	"selfheal/harness/folder"
	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
)

// Pictures writes the adversarial images that a run has saved in its folder as PNG files: pictures/ARRAY/NAME.png, under
// the images' own paths where they have any, otherwise their ids. It returns how many it has written, and how many of
// them are exact: all their values lie on the levels of 8 bits.
func Pictures(dir string, to atomicfile.Output) (n, exact int, err error) {
	saved, err := result.ReadSaved(to.Path("adversarial/index.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, fmt.Errorf("%s has saved no adversarial images; save_adversarial: true in a suite, or "+
			"--save-adversarial, saves them", dir)
	}
	if err != nil {
		return 0, 0, err
	}
	for _, a := range saved.Arrays {
		shape, x, err := dataset.ReadArray(os.DirFS(dir), "adversarial/"+a.File)
		if err != nil {
			return n, exact, fmt.Errorf("%s/adversarial/%s: %w", dir, a.File, err)
		}
		images := saved.Images[a.Dataset]
		if len(shape) != 4 || shape[0] != len(images) || shape[1] != 1 && shape[1] != 3 || shape[2] == 1 && shape[1] == 1 {
			return n, exact, fmt.Errorf("%s/adversarial/%s: arrays of the shape %v are no pictures of the %d images of %s",
				dir, a.File, shape, len(images), a.Dataset)
		}
		s := attacks.Shape{C: shape[1], H: shape[2], W: shape[3]}
		for i, im := range images {
			pixels := x[i*s.Size() : (i+1)*s.Size()]
			data, err := encodePNG(s, pixels)
			if err == nil {
				err = to.Write(pictureName(a.File, im), data)
			}
			if err != nil {
				return n, exact, fmt.Errorf("pictures: %w", err)
			}
			if n++; levelled(pixels) {
				exact++
			}
		}
	}
	return n, exact, nil
}

// pictureName names the picture of an image in an array, in the run's folder.
func pictureName(array string, im result.SavedImage) string {
	name := strings.TrimSuffix(im.File, path.Ext(im.File))
	if name == "" || !fs.ValidPath(name) || strings.Count(name, "/") >= folder.PictureFolders {
		name = fmt.Sprint(im.Image)
	}
	return path.Join("pictures", strings.TrimSuffix(array, ".npy"), name+".png")
}

// levelled reports whether all values lie on the levels of 8 bits.
func levelled(pixels []float32) bool {
	for _, v := range pixels {
		if v != float32(math.Round(255*float64(v)))/255 {
			return false
		}
	}
	return true
}
