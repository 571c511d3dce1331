package cli

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"selfheal/harness/config"
	"selfheal/harness/open"
	"selfheal/internal/lists"
	"selfheal/models/heads"
	"selfheal/models/onnx"
)

// taskFlags say what a model is asked, if not for a class.
type taskFlags struct{ task, truth string }

func (f *taskFlags) add(to flags) {
	kinds := lists.Map(heads.Kinds, func(k heads.Kind) string { return k.Name })
	to.text(&f.task, "task", "", "the model's task, if not classification: "+strings.Join(kinds, ", ")+
		", with its keys as in a config, regression,tolerance=0.1, or a head of your own, head=head.onnx",
		words(kinds...))
	to.text(&f.truth, "truth", "", "a file with the numbers that answers to each image of --data are compared with, "+
		"or a folder of masks", filesWith("npy", "npz", "csv", "jsonl", "parquet"))
	to.only(beside("task"), "truth")
}

// tasked appends the config's keys for the task to a model's and for the truth to its images'.
func (f *taskFlags) tasked(network, images config.Keys) (config.Keys, config.Keys, error) {
	if f.task == "" {
		return network, images, nil
	}
	var task config.Keys
	for i, part := range regexp.MustCompile(`(?:\[[^\]]*\]|[^,\[])+`).FindAllString(f.task, -1) {
		name, value, ok := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if slices.ContainsFunc(task, func(k config.Key) bool { return k.Name == name }) {
			return nil, nil, fmt.Errorf("--task %s: %s is given twice", f.task, name)
		}
		switch list, isList := strings.CutPrefix(value, "["); {
		case !ok && i == 0:
			task = append(task, key("kind", config.Word(name), "--task"))
		case !ok:
			return nil, nil, fmt.Errorf("--task %s: behind the kind come KEY=VALUE, as in regression,tolerance=0.1",
				f.task)
		case isList:
			task = append(task, key(name, wordsOf(strings.TrimSuffix(list, "]")), "--task "+name))
		default:
			task = append(task, key(name, config.Word(value), "--task "+name))
		}
	}
	images = append(images, filled(key("truth", filepath.ToSlash(f.truth), "--truth"))...)
	return append(network, key("task", task, "--task")), images, nil
}

// read reads the task of the flags.
func (f *taskFlags) read() (task heads.Task, err error) {
	network := config.Keys{key("path", "model.onnx", "")}
	if network, _, err = f.tasked(network, nil); err != nil || f.task == "" {
		return task, err
	}
	cfg, err := asked(network, config.Keys{key("format", "npz", ""), key("path", "images.npz", "")}) // neither is read
	if err != nil {
		return task, err
	}
	task, _, err = open.ReadTask(cfg.Files, &cfg.Models[0])
	return task, err
}

// likelyTask says which task the names of a network's output and file suggest; "" if none.
func likelyTask(g *onnx.Graph, file string) string {
	task, sure := heads.Likely(g.Outputs[0].Name, filepath.Base(file))
	if task == "" {
		return ""
	}
	return fmt.Sprintf("by the names of its output %.80q and its file this is %s a network of the task %s (--task), "+
		"not a classifier", g.Outputs[0].Name, sure, task)
}
