package onnx_test

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
)

// A model with weights in two files, in a subfolder, at overlapping offsets, in a Constant, equals the model with the
// weights inside.
func TestExternalData(t *testing.T) {
	build := func(external bool) []byte {
		f := onnxtest.New(13, N, 2)
		c := onnxtest.FloatTensor("", []int64{2}, 5, 6)
		if external {
			sum := sha1.Sum(append(make([]byte, 8), bits[float32](1, 2, 3, 4)...))
			f.Tensor(onnxtest.External("w", []int64{2, 2}, "location=w.bin offset=8 length=16 checksum="+
				strings.ToUpper(hex.EncodeToString(sum[:]))))
			f.Tensor(onnxtest.External("b", []int64{2}, "location=w.bin offset=16")) // the last two of w
			c = onnxtest.External("", []int64{2}, "location=below/c.bin")
		} else {
			f.Tensor(onnxtest.FloatTensor("w", []int64{2, 2}, 1, 2, 3, 4)).
				Tensor(onnxtest.FloatTensor("b", []int64{2}, 3, 4))
		}
		f.Floats("inside", []int64{1}, 0.5).Ints("axes", 1)
		f.Node("MatMul x w → m; Add m b → n; Constant → c", "value", c).
			Node("Add n c → o; ReduceSum o axes → p; Mul o inside → q; Add p q → y")
		return f.Bytes(N, 2)
	}
	dir := t.TempDir()
	model, first, second := build(true), append(make([]byte, 8), bits[float32](1, 2, 3, 4)...), bits[float32](5, 6)
	write := func(name string, data []byte) {
		t.Helper()
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, data, 0o644))
	}
	write("m.onnx", model)
	write("w.bin", first)
	write("below/c.bin", second)
	write("inside.onnx", build(false))

	g, data := must.Get2(simplify.Load(filepath.Join(dir, "m.onnx"), simplify.Options{}))(t)
	want, plain := must.Get2(simplify.Load(filepath.Join(dir, "inside.onnx"), simplify.Options{}))(t)
	if !slices.Equal(plain, build(false)) {
		t.Error("a model in one file does not come back as it is")
	}
	for name, c := range want.Consts {
		if f := g.Consts[name]; f == nil || !slices.Equal(f.Floats, c.Floats) || !slices.Equal(f.Ints, c.Ints) {
			t.Errorf("%s is %v, not %v", name, f, c)
		}
	}
	if a, b := onnxtest.Run(t, g, []float32{1, -2}), onnxtest.Run(t, want, []float32{1, -2}); !slices.Equal(a, b) {
		t.Errorf("%v, not %v", a, b)
	}
	if again := onnxtest.Open(t, data); !slices.Equal(onnxtest.Run(t, again, []float32{1, -2}),
		onnxtest.Run(t, g, []float32{1, -2})) {
		t.Error("in one piece it is another model")
	}

	hash := func(parts ...[]byte) string {
		sum := sha256.Sum256(slices.Concat(parts...))
		return hex.EncodeToString(sum[:])
	}
	for name, want := range map[string]string{"inside.onnx": hash(plain), "m.onnx": hash(model, second,
		first)} { // below/c.bin, w.bin
		f := must.Get(onnx.Read(filepath.Join(dir, name)))(t)
		if f.SHA256 != want {
			t.Errorf("%s has SHA-256 %s, want %s", name, f.SHA256, want)
		}
		// From a file system that can't seek, and by a path below its root.
		f = must.Get(onnx.ReadFS(unseekable{os.DirFS(filepath.Dir(dir))}, filepath.Base(dir)+"/"+name))(t)
		if f.SHA256 != want || !slices.Equal(onnxtest.Run(t, onnxtest.Open(t, f.Data), []float32{1, -2}),
			onnxtest.Run(t, g, []float32{1, -2})) {
			t.Errorf("%s: ReadFS gives another model", name)
		}
	}
	link := filepath.Join(t.TempDir(), "link.onnx") // finds the weights beside the model, not beside the link
	if err := os.Symlink(filepath.Join(dir, "m.onnx"), link); err == nil {
		must.Get(onnx.Read(link))(t)
	}
	_, err := simplify.Open(model, simplify.Options{}) // from memory
	must.Refuse(t, err, `"w.bin"`, "open the model by its path")

	// A changed weight changes the hash.
	first[8]++
	write("w.bin", first)
	_, err = onnx.Read(filepath.Join(dir, "m.onnx"))
	must.Refuse(t, err, "SHA-1")
}

// unseekable hides that files can be read at any place.
type unseekable struct{ fs.FS }

func (u unseekable) Open(name string) (fs.File, error) {
	f, err := u.FS.Open(name)
	return struct{ fs.File }{f}, err
}

func TestExternalDataErrors(t *testing.T) {
	dir := t.TempDir()
	inside := filepath.Join(dir, "model")
	for _, d := range []string{"model", "model/folder", "outside"} {
		must.Do(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	for _, f := range []string{"model/four", "outside/four", "four"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, f), bits[float32](1, 2, 3, 4), 0o644))
	}
	must.Do(t, os.WriteFile(filepath.Join(inside, "pointer"), []byte(testinput.Pointer), 0o644))
	for link, to := range map[string]string{"out": "../four", "absolute": filepath.Join(dir, "four"),
		"up": "../outside", "alias": "four", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(inside, link)); err != nil {
			t.Skip("no symbolic links here: ", err)
		}
	}
	path := filepath.Join(inside, "m.onnx")
	for _, c := range []struct {
		want  string // "" if it is valid
		where string // key=value key=value
	}{
		{"", "location=four"},
		{"", "location=alias offset=0 length=16"},
		{"no such file", "location=absent"},
		{"is a Git LFS pointer", "location=pointer offset=0 length=16"},
		{"doesn't name", ""},
		{"doesn't name", "location="},
		{`"../four", which is not a file in the model's folder`, "location=../four"},
		{"not a file in the model's folder", "location=" + filepath.Join(dir, "four")},
		{"not a file in the model's folder", "location=folder/../../four"},
		{"not a file in the model's folder", `location=..\four`},
		{"not a file in the model's folder", "location=C:four"},
		{"not a file in the model's folder", "location=."},
		{"is not a file", "location=folder"},
		{"escapes", "location=out"},
		{"escapes", "location=absolute"},
		{"escapes", "location=up/four"},
		{`"loop"`, "location=loop"},
		{"holds 16 bytes, too few for 16 bytes from 4 on", "location=four offset=4"},
		{"too few", "location=four offset=9223372036854775807"},
		{`offset "-4"`, "location=four offset=-4"},
		{`offset "99999999999999999999"`, "location=four offset=99999999999999999999"},
		{`offset "x"`, "location=four offset=x"},
		{`length "-1"`, "location=four length=-1"},
		{"needs 16 bytes, its external data has 12", "location=four length=12"},
		{"SHA-1", "location=four checksum=00"},
	} {
		t.Run(c.where, func(t *testing.T) {
			f := onnxtest.New(13, N, 4).Tensor(onnxtest.External("w", []int64{4}, c.where)).Node("Add x w → y")
			must.Do(t, os.WriteFile(path, f.Bytes(N, 4), 0o644))
			_, _, err := simplify.Load(path, simplify.Options{})
			if c.want == "" {
				must.Do(t, err)
				return
			}
			must.Refuse(t, err, "model "+path+": ", c.want)
			if !strings.Contains(err.Error(), `initializer "w"`) && !strings.Contains(err.Error(), `file "`) {
				t.Errorf("%v names no place", err)
			}
		})
	}

	// Giants and crowds, without the memory that they ask for.
	giant := onnxtest.New(13, N, 4).Tensor(onnxtest.External("w", []int64{1 << 62, 4}, "location=four"))
	many := onnxtest.New(13, N, 4)
	for i := range 40 {
		many.Tensor(onnxtest.External(fmt.Sprint("w", i), []int64{1 << 24}, "location=sparse"))
	}
	crowd, files := onnxtest.New(13, N, 4), fstest.MapFS{}
	for i := range 5000 {
		files[fmt.Sprint("f", i)] = &fstest.MapFile{Data: make([]byte, 16)}
		crowd.Tensor(onnxtest.External(fmt.Sprint("w", i), []int64{4}, fmt.Sprint("location=f", i)))
	}
	sparse := must.Get(os.Create(filepath.Join(inside, "sparse")))(t)
	defer sparse.Close()
	must.Do(t, sparse.Truncate(1<<26))
	for want, f := range map[string]onnxtest.File{"is not possible": giant, "more than 2 GiB of weights": many,
		"more than 4096 files": crowd} {
		var system fs.FS = os.DirFS(inside)
		if want == "more than 4096 files" {
			system = files
		}
		data := f.Node("Neg x → y").Bytes(N, 4)
		before := must.Allocated()
		_, err := onnx.ReadFS(overlay{system, fstest.MapFS{"m.onnx": {Data: data}}}, "m.onnx")
		must.Refuse(t, err, want)
		if used := must.Allocated() - before; used > 64<<20 {
			t.Errorf("%s: took %d MiB", want, used>>20)
		}
	}
}

// overlay opens a file in the second file system, if it is there, otherwise in the first.
type overlay [2]fs.FS

func (o overlay) Open(name string) (fs.File, error) {
	if f, err := o[1].Open(name); err == nil {
		return f, nil
	}
	return o[0].Open(name)
}

// counted counts the files that are open at once.
type counted struct {
	fs.FS
	open, most *int
}

func (c counted) Open(name string) (fs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	*c.open++
	*c.most = max(*c.most, *c.open)
	return countedFile{f, c.open}, nil
}

type countedFile struct {
	fs.File
	open *int
}

func (c countedFile) Close() error {
	*c.open--
	return c.File.Close()
}

// Weights in a thousand files are read without holding these open.
func TestExternalFilesAreClosed(t *testing.T) {
	files, model := fstest.MapFS{}, onnxtest.New(13, N, 1)
	for i := range 1000 {
		name := fmt.Sprint("f", i)
		files[name] = &fstest.MapFile{Data: bits[float32](float32(i))}
		model.Tensor(onnxtest.External(name, []int64{1}, "location="+name))
	}
	files["m.onnx"] = &fstest.MapFile{Data: model.Node("Add x f999 → y").Bytes(N, 1)}
	held, most := 0, 0
	f := must.Get(onnx.ReadFS(counted{files, &held, &most}, "m.onnx"))(t)
	if y := onnxtest.Run(t, onnxtest.Open(t, f.Data), []float32{1}); y[0] != 1000 {
		t.Errorf("gives %v", y)
	}
	if held != 0 || most > 2 { // the model's own and one more
		t.Errorf("%d files were open at once, %d stay so", most, held)
	}
}

// A model of many functions is searched for external data in one pass.
func TestExternalDataOfManyFunctions(t *testing.T) {
	f := onnxtest.New(13, N, 1)
	for i := range 5000 {
		f.Function(fmt.Sprint("F", i), "x", "y", nil, func(f onnxtest.File) {
			for range 10 {
				f.Node("Neg x → y")
			}
		})
	}
	data := f.Node("Neg x → y").Bytes(N, 1)
	before := must.Allocated()
	if _, err := onnx.ReadFS(fstest.MapFS{"m.onnx": {Data: data}}, "m.onnx"); err != nil {
		t.Fatal(err)
	}
	if used := must.Allocated() - before; used > 256<<20 {
		t.Errorf("took %d MiB for a file of %d", used>>20, len(data)>>20)
	}
}
