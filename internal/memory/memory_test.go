package memory

import (
	"io/fs"
	"math"
	"runtime"
	"testing"
	"testing/fstest"

	"selfheal/internal/must"
)

func TestFree(t *testing.T) {
	defer func(system fs.FS) { root = system }(root)
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"the machine alone": {nil, 8 << 20},
		"a limit of the address space": {map[string]string{
			"proc/self/limits": "Limit                     Soft Limit           Hard Limit           Units\n" +
				"Max file locks            unlimited            unlimited            locks\n" +
				"Max address space         5000000              unlimited            bytes\n",
			"proc/self/status": "Name:\tx\nVmSize:\t    1000 kB\n",
		}, 5000000 - 1024000},
		"no limit of the address space": {map[string]string{
			"proc/self/limits": "Max address space         unlimited            unlimited            bytes\n",
		}, 8 << 20},
		"version 2, its own group": {map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1000000\n",
			"sys/fs/cgroup/a/b/memory.current": "700000\n", "sys/fs/cgroup/a/memory.max": "max\n",
			"sys/fs/cgroup/a/b/memory.stat": "anon 5\ninactive_file 200000\nactive_file 50000\n",
		}, 550000},
		"version 2, the group around it": {map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1000000\n",
			"sys/fs/cgroup/a/b/memory.current": "1000\n", "sys/fs/cgroup/a/memory.max": "1000000\n",
			"sys/fs/cgroup/a/memory.current": "900000\n",
		}, 100000},
		"version 2 in a container": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "5000\n",
			"sys/fs/cgroup/memory.current": "6000\n",
		}, 0},
		"version 1": {map[string]string{
			"proc/self/cgroup":                               "3:cpu,cpuacct:/x\n4:hugetlb,memory:/job\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712",
			"sys/fs/cgroup/memory/memory.stat":               "total_active_file 99999\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "4000000",
			"sys/fs/cgroup/memory/job/memory.stat": "cache 7\n" +
				"inactive_file 1\ntotal_inactive_file 300000\n",
			"sys/fs/cgroup/memory/job/memory.usage_in_bytes": "1000000",
		}, 3300000},
		"version 1 in a container": {map[string]string{
			"proc/self/cgroup": "4:memory:/docker/1f\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "2000000",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "500000",
		}, 1500000},
	} {
		files := fstest.MapFS{"proc/meminfo": {Data: []byte("MemTotal: 99999 kB\nMemAvailable:    8192 kB\n")}}
		for path, text := range c.files {
			files[path] = &fstest.MapFile{Data: []byte(text)}
		}
		root = files
		if got, known := Free(); got != c.want || !known {
			t.Errorf("%s: %d, %v; wanted %d", name, got, known, c.want)
		}
	}
	root = fstest.MapFS{"proc/meminfo": {Data: []byte("MemAvailable:    3145728 kB\n")}}
	must.Do(t, Room(3<<30))
	must.Refuse(t, Room(3<<30+1), "takes 3 GiB of memory, and 3 GiB are free")
	must.Refuse(t, Room(math.MaxInt64), "takes 8 EiB of memory")
	root = fstest.MapFS{}
	must.Do(t, Room(math.MaxInt64))
	if _, known := Free(); known {
		t.Error("a system that says nothing is known")
	}
}

// On this machine both numbers are plausible.
func TestHere(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("not Linux")
	}
	if bytes, known := Free(); !known || bytes < 1<<20 || bytes > 1<<46 {
		t.Errorf("%d bytes are free, %v", bytes, known)
	}
	if n := Resident(); n < 1<<19 || n > 1<<36 {
		t.Errorf("%d bytes are resident", n)
	}
}
