// Package picture turns images of a run into PNG files. [Encode] makes one, for a gallery or a folder; [Saved] makes
// those of a run's adversarial images, after the run.
package picture

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strings"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/dataset"
	"selfheal/harness/folder"
	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
)

// Saved writes the adversarial images that a run has saved in its folder as PNG files: pictures/ARRAY/NAME.png, under
// the images' own paths where they have any, otherwise their ids. It returns how many it has written, and how many of
// them are exact: all their values lie on the levels of 8 bits.
func Saved(dir string, to atomicfile.Output) (n, exact int, err error) {
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
		fits := len(shape) == 4 && shape[0] == len(images)
		if !fits || shape[1] != 1 && shape[1] != 3 || shape[1] == 1 && shape[2] == 1 {
			return n, exact, fmt.Errorf("%s/adversarial/%s: an array of the shape %v has no pictures of the %d images "+
				"of %s", dir, a.File, shape, len(images), a.Dataset)
		}
		s := attacks.Shape{C: shape[1], H: shape[2], W: shape[3]}
		for i, im := range images {
			pixels := x[i*s.Size() : (i+1)*s.Size()]
			data, err := Encode(s, pixels)
			if err == nil {
				err = to.Write(pictureName(a.File, im), data)
			}
			if err != nil {
				return n, exact, fmt.Errorf("pictures: %w", err)
			}
			if n++; !slices.ContainsFunc(pixels, attacks.BetweenLevels) {
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

// Encode writes an image of 1 or 3 channels, clipped to [0,1], with 8 bits a channel.
func Encode(s attacks.Shape, pixels []float32) ([]byte, error) {
	plane := s.H * s.W
	at := func(channel, i int) uint8 {
		return uint8(math.Round(255 * min(max(float64(pixels[channel*plane+i]), 0), 1)))
	}
	var img image.Image
	if s.C == 1 {
		grey := image.NewGray(image.Rect(0, 0, s.W, s.H))
		for i := range plane {
			grey.Pix[i] = at(0, i)
		}
		img = grey
	} else {
		colour := image.NewNRGBA(image.Rect(0, 0, s.W, s.H))
		for i := range plane {
			colour.SetNRGBA(i%s.W, i/s.W, color.NRGBA{at(0, i), at(1, i), at(2, i), 0xff})
		}
		img = colour
	}
	var b bytes.Buffer
	err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, img)
	return b.Bytes(), err
}

// Masks draws what a segmentation answers to images of a shape, behind the truth. Other tasks' answers have no
// pictures, and neither have masks whose size is no part of the image's.
func Masks(s attacks.Shape, all []control.Answered) (files [][]byte, err error) {
	draw := func(classes []float32, h, w int) {
		im := image.NewPaletted(image.Rect(0, 0, s.W, s.H), classColours)
		for i := range im.Pix {
			class := classes[i/s.W*h/s.H*w+i%s.W*w/s.W]
			im.Pix[i] = uint8(min(max(class, 0), 255))
		}
		var b bytes.Buffer
		err = cmp.Or(err, png.Encode(&b, im))
		files = append(files, b.Bytes())
	}
	for i := range all {
		truth, answer, h, w := all[i].Masks()
		if truth == nil || s.H%h != 0 || s.W%w != 0 {
			continue
		}
		if files == nil {
			draw(truth, h, w)
		}
		draw(answer, h, w)
	}
	return files, err
}

// classColours are the colours of classes: black, then hues far from those before them, and white for 255.
var classColours = func() (p color.Palette) {
	for i := range 256 {
		angle := float64(i) * math.Pi * (3 - math.Sqrt(5)) // the golden angle
		part := func(turn float64) uint8 { return uint8(140 + 100*math.Cos(angle+turn)) }
		p = append(p, color.NRGBA{part(0), part(2 * math.Pi / 3), part(4 * math.Pi / 3), 0xff})
	}
	p[0], p[255] = color.Black, color.White
	return p
}()
