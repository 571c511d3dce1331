//go:build faults && unix

package journal

import (
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

var (
	deadly, _ = strconv.ParseInt(os.Getenv("SELFHEAL_KILL_AT_WRITE"), 10, 64) // 0: no write
	writes    atomic.Int64
)

// interrupted kills the program in the middle of the write numbered by SELFHEAL_KILL_AT_WRITE.
func interrupted(w io.Writer) io.Writer { return torn{w} }

type torn struct{ io.Writer }

func (t torn) Write(p []byte) (int, error) {
	if writes.Add(1) != deadly {
		return t.Writer.Write(p)
	}
	t.Writer.Write(p[:rand.IntN(len(p))])
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
