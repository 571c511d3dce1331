package run

import (
	"os"
	"regexp"
	"testing"
)

// Results name the processor as the system does.
func TestCPUName(t *testing.T) {
	info, err := os.ReadFile("/proc/cpuinfo")
	found := regexp.MustCompile(`(?m)^model name\s*: (.*\S)\s*$`).FindSubmatch(info)
	if err != nil || found == nil {
		t.Skip("the system does not name it")
	}
	if got := cpuName(); got != string(found[1]) {
		t.Errorf("%q, the system says %q", got, found[1])
	}
}
