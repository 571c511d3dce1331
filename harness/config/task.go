package config

import (
	"selfheal/internal/lists"
	"selfheal/internal/setting"
	"selfheal/models/heads"
)

// Task describes a model's task, see package heads. The zero value is classification.
type Task struct {
	heads.Settings
	Texts string // file of zero-shot's embeddings of texts
	Head  string // file of the user's own head
}

const (
	classification = "classification"
	ensemble       = heads.Ensemble
)

// Tasks lists the kinds of tasks.
func Tasks() []string {
	heads := lists.Map(heads.Kinds, func(k heads.Kind) string { return k.Name })
	return append([]string{classification, ensemble}, heads...)
}

func (m *Model) task() value {
	t := &m.Task
	doc := "which task; classification: the class; ensemble: the class, of several models together"
	for _, k := range heads.Kinds {
		doc += "; " + k.Name + ": " + k.Doc
	}
	label := func(v *int) value { return whole(v, orNone) }
	rows := []row{
		optional("kind", choice(&t.Kind, Tasks()), classification, doc),
		optional("head", file(&t.Head), "", "in place of a kind: an ONNX graph of your own, from the answer and the "+
			"truth to two scores, of right and wrong, or from the answer to the classes' scores").in(classification),
		required("tolerance", eachOf(&t.Tolerance, setting.Positive),
			"how far a number or point may lie from the truth; of numbers, one or one each"),
		optional("period", eachOf(&t.Period, setting.NotNegative), "",
			"modulo which numbers count, such as 360 for angles; 0: none"),
		optional("threshold", decimal(&t.Threshold, setting.Any), "0",
			"above which a label, or the second class of a segmentation's one channel, holds: 0 of a logit, 0.5 of "+
				"a probability; of a verification, above which cosine or below which distance a pair is the same"),
		optional("metric", choice(&t.Metric, []string{heads.Cosine, heads.Distance}), heads.Cosine,
			"how embeddings are compared"),
		optional("far", decimal(&t.FAR, setting.Fraction), "", "in place of the threshold: the share of all pairs in "+
			"the data set's file that are not the same, but may be accepted"),
		optional("labels", list(&t.Labels, span{least: 1, once: true}, label), "",
			"the labels that must be right; default: all"),
		required("texts", file(&t.Texts), "a NumPy array of the texts' embeddings, [classes, d]"),
		optional("logit_scale", decimal(&t.Scale, setting.Positive), "100",
			"what cosines are multiplied by to make logits"),
		optional("bar", decimal(&t.Bar, setting.Fraction), "0.5",
			"least share of the pixels or points that must be right"),
		required("of", names(&t.Of, "a model", "models", 2), "the members, which have the same classes").in(ensemble),
		optional("by", choice(&t.By, heads.Joined), heads.Mean, "how they answer together: by the mean of their "+
			"probabilities or of their logits, or by votes").in(ensemble),
		optional("ignore", decimal(&t.Ignored, setting.Any), "255", "class of pixels that do not count"),
	}
	for i := range rows {
		if kinds := heads.Taking(rows[i].key); kinds != nil {
			rows[i] = rows[i].in(kinds...)
		}
	}
	return object{forms: formsBy("kind", Tasks()), rows: rows, check: func(d *decoder, n *node, where string) {
		given := func(key string) bool { return n.get(key) != nil }
		switch {
		case t.Kind == heads.Verification && given("threshold") == given("far"):
			d.fail(n.pos, "%s needs either threshold or far", where)
		case t.Head != "" && n.get("kind") != nil:
			d.fail(n.pos, "%s has a kind and a head of its own; give one of them", where)
		case t.Head != "":
			t.Kind = heads.Own
		case t.Kind == classification:
			t.Kind = ""
		}
	}}.value()
}
