package cli

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"selfheal/harness/config"
	"selfheal/internal/terminal"
)

// function is a flag for the Python package, whose calls attack functions of their own process. The program writes
// questions to its standard output, and nothing else, and reads the answers from its standard input. All numbers are
// little-endian. A question is the shape [N, C, H, W] of a batch, four uint32, and its values in float32. An answer is
// N and K, two uint32, and N·K logits in float32, or K = 0 and N labels.
const function = "function"

// asker asks the function of the program that started this one.
type asker struct {
	mu  sync.Mutex
	in  *bufio.Reader
	out io.Writer
	err error // what ended the conversation
}

// asks lets a config's models be functions. From now on, nothing that the command prints is written.
func (g *globals) asks(c *cobra.Command, cfg *config.Config) {
	a := &asker{in: bufio.NewReader(c.InOrStdin()), out: terminal.Raw(c.OutOrStdout())}
	c.SetOut(io.Discard)
	cfg.Function = a.ask
}

// ask implements [config.Config.Function], one question after the other.
func (a *asker) ask(x []float32, shape [4]int) (answers []float32, labels bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return nil, false, a.err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("the program that answers for the function has ended: %w", err)
			a.err = err
		}
	}()
	question := make([]byte, 0, 16+4*len(x))
	for _, d := range shape {
		question = binary.LittleEndian.AppendUint32(question, uint32(d))
	}
	if question, err = binary.Append(question, binary.LittleEndian, x); err != nil {
		return nil, false, err
	}
	if _, err := a.out.Write(question); err != nil {
		return nil, false, err
	}
	var head struct{ N, K uint32 }
	if err := binary.Read(a.in, binary.LittleEndian, &head); err != nil {
		return nil, false, err
	}
	const most = 1 << 20 // classes
	if labels = head.K == 0; int(head.N) != shape[0] || head.K > most {
		return nil, false, fmt.Errorf("it answers %d images by %d values each, where %d were asked", head.N, head.K,
			shape[0])
	}
	answers = make([]float32, int(head.N)*int(max(head.K, 1)))
	err = binary.Read(a.in, binary.LittleEndian, answers)
	if labels && slices.ContainsFunc(answers, func(v float32) bool { return !(v >= 0 && v < most) }) {
		return nil, false, fmt.Errorf("it answers by labels below 0 or from %d up", most)
	}
	return answers, labels, err
}
