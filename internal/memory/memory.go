// Package memory says how much memory the process may still take: [Free] in bytes, [Room] as an error before a size
// that a user chose is allocated. It knows Linux: the machine's own account, the limits of control groups, versions 1
// and 2, set by containers and schedulers, and the limit of the process's address space. On other systems the amount is
// unknown.
package memory

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"selfheal/internal/number"
)

// root is the system's file tree; a variable for tests.
var root = os.DirFS("/")

// Free returns the bytes that can be taken without swapping and without a process being killed: the least of the
// machine's available memory and the remainder of each control group around the process, where caches that the kernel
// can drop count as free. known is false on other systems.
func Free() (bytes int64, known bool) {
	least := field("proc/meminfo", "MemAvailable:")
	if least == 0 {
		return 0, false
	}
	least *= 1024
	for _, v := range []version{
		{"", "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file", "active_file"},
		{"memory", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
			"total_active_file"},
	} {
		least = min(least, v.free())
	}
	if limit, limited := AddressSpace(); limited {
		least = min(least, limit-1024*field("proc/self/status", "VmSize:"))
	}
	return max(least, 0), true
}

// little is as much as asking the system takes; there is always room for it.
const little = 64 << 10

// Room returns an error if fewer bytes are free. Call it before allocating a size that a user chose.
func Room(bytes int64) error {
	if bytes <= little {
		return nil
	}
	free, known := Free()
	if known && bytes > free {
		debug.FreeOSMemory() // memory that Go keeps in reserve is free too
		free, _ = Free()
	}
	if known && bytes > free {
		return fmt.Errorf("takes %s of memory, and %s are free", number.Bytes(bytes), number.Bytes(free))
	}
	return nil
}

// Resident returns the bytes of the process's own memory, without mapped files; 0 if unknown.
func Resident() int64 { return 1024 * field("proc/self/status", "RssAnon:") }

// AddressSpace returns the limit of the process's address space in bytes (ulimit -v); limited is false if there is
// none.
func AddressSpace() (bytes int64, limited bool) {
	const name = "Max address space"
	text, _ := fs.ReadFile(root, "proc/self/limits")
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			soft, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			n, err := strconv.ParseInt(soft, 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// unlimited is less than the value that version 1 writes for no limit.
const unlimited = 1 << 60

// version names the files of a version of control groups. The last two are lines of memory.stat: cached files in active
// use can be dropped too, so both count as reclaimable.
type version struct{ controller, mount, limit, used, inactive, active string }

// free returns the least remainder of the process's group and those around it. In a container some groups may lie
// outside the mounted tree: they are skipped, and the topmost is the container's own.
func (v version) free() int64 {
	least := int64(math.MaxInt64)
	for at := v.group(); ; at = path.Dir(at) {
		dir := path.Join(v.mount, at)
		if limit, ok := whole(path.Join(dir, v.limit)); ok && limit < unlimited {
			used, _ := whole(path.Join(dir, v.used))
			stat := path.Join(dir, "memory.stat")
			least = min(least, limit-used+field(stat, v.inactive)+field(stat, v.active))
		}
		if at == "/" {
			return least
		}
	}
}

// group returns the path of the process's group, from lines of ID:CONTROLLERS:PATH. Version 2 names no controllers.
func (v version) group() string {
	text, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), v.controller) {
			return path.Clean("/" + parts[2])
		}
	}
	return "/"
}

// whole reads a file that holds one number; "max" and a missing file have none.
func whole(name string) (int64, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// field returns the number after a word at the start of a line; 0 if there is none.
func field(name, word string) int64 {
	text, _ := fs.ReadFile(root, name)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == word {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}
