package heads

import (
	"regexp"
	"strings"
)

// likely are the words in names of outputs and files by which tasks are recognised.
var likely = []struct {
	words *regexp.Regexp
	task  string
}{
	{regexp.MustCompile(`\b(sig)?clip\b|clip_|image_embeds`), ZeroShot},
	{regexp.MustCompile(`embed|\bface|face(net|_r)|reid|descriptor`), Verification},
	{regexp.MustCompile(`landmark|keypoint`), Landmarks},
	{regexp.MustCompile(`depth`), Depth},
	{regexp.MustCompile(`angle|pose|steer|coord|regress|rul\b|\bage\b`), Regression},
	{regexp.MustCompile(`tags?\b|attribute|multi.?label`), MultiLabel},
}

// Likely returns the task that the names of a network's output and file suggest, and how sure that is; "" if they
// suggest none. Shapes of [N, n] alone tell no task from classification.
func Likely(output, file string) (task, sure string) {
	output, file = strings.ToLower(output), strings.ToLower(file)
	for _, l := range likely {
		switch o, f := l.words.MatchString(output), l.words.MatchString(file); {
		case o && f:
			return l.task, "likely"
		case o || f:
			return l.task, "perhaps"
		}
	}
	return "", ""
}
