package shard

import (
	"fmt"
	"testing"
)

// The merge's command is that of a shard without its own flags.
func TestWholly(t *testing.T) {
	words := wholly([]string{"selfheal", "run", "--shard", "1/2", "--attempt", "--shard=1/2", "-q"})
	if fmt.Sprint(words) != "[selfheal run -q]" {
		t.Errorf("the command is %s", words)
	}
}
