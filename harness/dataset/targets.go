package dataset

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// readTargets reads a class for each of n images: from a NumPy array (.npy), or from text with a number on each line.
func readTargets(fsys fs.FS, name string, n int, files *closers) (all labels, err error) {
	if isArrays(fsys, name) {
		set, err := openArrays(fsys, name, files)
		if err != nil {
			return nil, err
		}
		all, err = set.find(set.first).classes()
		if err != nil {
			return nil, err
		}
	} else {
		text, err := readText(fsys, name)
		if err != nil {
			return nil, err
		}
		for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
			class, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil || class < 0 || class > maxClasses {
				return nil, fmt.Errorf("line %d is no class's number: %s", i+1, shorten(line))
			}
			all = append(all, class)
		}
	}
	if len(all) != n {
		return nil, fmt.Errorf("it has %d classes for %d images: one is needed for each", len(all), n)
	}
	return all, nil
}
