package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"selfheal/internal/fault"
)

// lockFile keeps a second run out of a folder. It stays there: whoever removed it could
// remove another run's. The system frees the lock of a process that ends, however it ends.
// The file holds who has the lock, and nothing where nobody has.
const lockFile = ".selfheal.lock"

// lock is held on a folder.
type lock struct {
	*flock.Flock
	before string // who had it and did not give it back
}

// lockFolder locks a folder.
func lockFolder(dir string) (*lock, error) {
	path := filepath.Join(dir, lockFile)
	l := &lock{Flock: flock.New(path)} // a folder that can't be written is found now
	free, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("output folder %s: %w", dir, fault.Reason(err))
	}
	owner, _ := os.ReadFile(path)
	l.before = strings.TrimSpace(string(owner))
	if !free {
		by := ""
		if l.before != "" {
			by = " (" + l.before + ")"
		}
		return nil, fmt.Errorf("%s: another run%s is writing to this folder; wait for it or choose another --out",
			dir, by)
	}
	host, _ := os.Hostname()
	now := fmt.Sprintf("process %d on %s, since %s\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	if err := os.WriteFile(path, []byte(now), 0o644); err != nil {
		return nil, fmt.Errorf("output folder %s: %w", dir, fault.Reason(err))
	}
	return l, nil
}

// free gives the lock back. An error would come too late to matter.
func (l *lock) free() {
	_ = os.Truncate(l.Path(), 0)
	_ = l.Close()
}
