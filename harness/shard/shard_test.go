package shard

import (
	"fmt"
	"testing"
)

// The merge's command is a shard's without the shard's flags.
func TestWholly(t *testing.T) {
	words := wholly([]string{"selfheal", "run", "--shard", "1/2", "--attempt", "--shard=1/2", "-q"})
	if fmt.Sprint(words) != "[selfheal run -q]" {
		t.Errorf("the command is %s", words)
	}
}
