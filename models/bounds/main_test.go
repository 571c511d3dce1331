package bounds

import (
	"testing"

	"selfheal/internal/testinput"
)

func TestMain(m *testing.M) { testinput.RunMain(m) }
