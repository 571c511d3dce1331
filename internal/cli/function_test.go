package cli

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
)

// answering runs the config of a function as the Python package does. answer gets each batch and returns the bytes to
// write; after less than the head of an answer it hangs up.
func answering(t *testing.T, attack string, answer func(n int, x []float32) []byte) (dir, stderr string, code int) {
	t.Helper()
	dir = t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "model.function"), []byte("f"), 0o644))
	config := filepath.Join(dir, "config.yaml")
	must.Do(t, os.WriteFile(config, []byte(`{"version": 1,
"datasets": {"data": {"format": "cifar10-bin", "path": "`+root+`/models/zoo/shapes10/test.bin", "limit": 20}},
"models": {"f": {"path": "model.function"}},
"attacks": {"a": `+attack+`},
"suites": {"s": {"dataset": "data", "models": ["f"], "attacks": ["a"]}}}`), 0o644))
	c := program(t, "run", "--config", config, "--out", filepath.Join(dir, "out"), "--function", "--batch", "8")
	var said bytes.Buffer
	c.Stderr, c.Env = &said, append(c.Env, lifeline+"="+function)
	in, out := must.Get(c.StdinPipe())(t), must.Get(c.StdoutPipe())(t)
	must.Do(t, c.Start())
	for {
		var shape [4]uint32
		if binary.Read(out, binary.LittleEndian, &shape) != nil {
			break
		}
		x := make([]float32, shape[0]*shape[1]*shape[2]*shape[3])
		must.Do(t, binary.Read(out, binary.LittleEndian, x))
		y := answer(int(shape[0]), x)
		must.Get(in.Write(y))(t)
		if len(y) < 8 {
			in.Close()
		}
	}
	_ = c.Wait()
	return dir, said.String(), c.ProcessState.ExitCode()
}

// answerOf writes an answer: scores of k classes or, for k = 0, labels.
func answerOf(n, k int, values ...float32) []byte {
	b := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(n)), uint32(k))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// brightness is the class of an image by its mean.
func brightness(x []float32) int {
	sum := float32(0)
	for _, v := range x {
		sum += v
	}
	return min(int(sum/float32(len(x))*20), 9)
}

// TestFunction attacks a function by its scores and by its labels: the judge's verdicts are the function's.
func TestFunction(t *testing.T) {
	const size = 3 * 32 * 32
	images := must.Get(os.ReadFile("models/zoo/shapes10/test.bin"))(t)
	want := ""
	for i := range 20 {
		x := make([]float32, size)
		for j := range x {
			x[j] = float32(images[i*(size+1)+1+j]) / 255
		}
		want += map[bool]string{true: "1", false: "0"}[brightness(x) == int(images[i*(size+1)])]
	}
	for _, labels := range []bool{false, true} {
		largest := 0
		dir, said, code := answering(t, `{"kind": "spatial", "queries": 10}`, func(n int, x []float32) []byte {
			var scores, classes []float32
			for i := range n {
				class := brightness(x[i*size : (i+1)*size])
				for k := range 10 {
					scores = append(scores, map[bool]float32{true: 2, false: -1}[k == class])
				}
				classes = append(classes, float32(class))
			}
			if largest = max(largest, n); labels {
				return answerOf(n, 0, classes...)
			}
			return answerOf(n, 10, scores...)
		})
		if code != exitOK {
			t.Fatalf("exit %d: %s", code, said)
		}
		f := must.Get(result.Read(filepath.Join(dir, "out", "results.json")))(t)
		if f.Cells[0].Verdicts != want || len(f.Cells) != 2 || largest < 4 {
			t.Errorf("verdicts %s, not %s, asked %d at once", f.Cells[0].Verdicts, want, largest)
		}
		// only its program can ask the function
		code, _, said = call("verify", filepath.Join(dir, "out"))
		if code == exitOK || !strings.Contains(said, "model f: ") && !strings.Contains(said, "adversarial images") {
			t.Errorf("verify: exit %d, %s", code, said)
		}
		code, _, said = call("run", "--config", filepath.Join(dir, "config.yaml"), "--out", t.TempDir())
		if code != exitUsage || !strings.Contains(said, "stands for a function of the program that asked") {
			t.Errorf("run: exit %d, %s", code, said)
		}
	}
}

// TestFunctionFaults gives answers that are none: each ends the run with a line.
func TestFunctionFaults(t *testing.T) {
	zeros := func(n int) []float32 { return make([]float32, n) }
	ten := func(n int) []byte { return answerOf(n, 10, zeros(10*n)...) }
	const attack = `{"kind": "spatial"}`
	asked := 0
	for _, test := range []struct {
		attack string
		answer func(n int) []byte
		want   string
	}{
		{attack, func(int) []byte { return nil }, "the program that answers for the function has ended: EOF"},
		{attack, func(n int) []byte { return answerOf(n, 10)[:6] }, "has ended: unexpected EOF"},
		{attack, func(n int) []byte { return answerOf(n+1, 10, zeros(10*n+10)...) },
			"it answers 17 images by 10 values each, where 16 were asked"},
		{attack, func(n int) []byte { return answerOf(n, 1<<30) }, "by 1073741824 values each"},
		{attack, func(n int) []byte { return answerOf(n, 1, zeros(n)...) }, "a classifier has 2 to"},
		{attack, func(n int) []byte { return answerOf(n, 0, append(zeros(n-1), -1)...) }, "labels below 0"},
		{attack, func(n int) []byte {
			if asked++; asked > 1 {
				return answerOf(n, 12, zeros(12*n)...)
			}
			return ten(n)
		}, "model f: the function answers with 12 values an image now, and with 10 at first"},
		{`{"kind": "pgd", "norm": "linf", "epsilon": 0.1}`, ten,
			"model f is a function, which has no gradients, and attack a takes them; take square, hop-skip-jump, rays"},
		{`{"kind": "bracket", "norm": "linf"}`, ten,
			"model f is a function, which has no gradients"},
	} {
		_, said, code := answering(t, test.attack, func(n int, _ []float32) []byte { return test.answer(n) })
		if code == exitOK || !strings.Contains(said, test.want) || strings.Count(said, "selfheal: ") != 1 {
			t.Errorf("exit %d, %s; want %s", code, said, test.want)
		}
	}
}

// TestTraits gives other programs the attacks, each in its norms.
func TestTraits(t *testing.T) {
	var v version
	must.Do(t, json.Unmarshal([]byte(done(t, "version", "--json")), &v))
	found := map[string]string{}
	for _, a := range v.Attacks {
		found[a.Kind] = strings.Join(a.Norms, " ") + map[bool]string{true: " blind"}[a.Blind] +
			map[bool]string{true: " least"}[a.Minimises] + map[bool]string{true: " proof"}[a.Proves]
	}
	for kind, want := range map[string]string{"pgd": "linf l2 l1", "square": "linf l2 l1 blind", "ddn": "l2 least",
		"rays": "linf blind least", "spatial": " blind", "patch": "", "corruption": " blind",
		"smoothing": "l2 blind proof", "bounds": "linf l2 l1 proof", "autoattack": "linf l2 l1"} {
		if found[kind] != want {
			t.Errorf("%s: %q, not %q", kind, found[kind], want)
		}
	}
}
