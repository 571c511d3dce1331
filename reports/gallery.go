package reports

import (
	"encoding/base64"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"selfheal/harness/result"
	"selfheal/reports/table"
	"selfheal/reports/words"
)

// galleryView is a suite's gallery as the page shows it.
type galleryView struct {
	Slug  string // of the suite
	Rule  string // by which the images were chosen
	Notes []string
	Cases []galleryCard
}

// galleryCard is one image: what was made of it, and what was answered.
type galleryCard struct {
	Heading, Facts string
	Trace          string // of its control; "" without one
	Small          bool   // few pixels, each of which is to be seen
	Pictures       []galleryPicture
}

// galleryPicture is one of a card's pictures; Source is empty where there is none to show,
// and Alt says why.
type galleryPicture struct {
	Name, Alt     string
	Source        template.URL
	Width, Height int
	Answers       []galleryAnswer
	Note          string
}

// galleryAnswer is what one network says of the picture above it.
type galleryAnswer struct {
	Who, Class, Margin string
	Right              bool
}

// smallPicture is the longest side, in pixels, of pictures that are shown enlarged.
const smallPicture = 64

// kindNames say what a case shows; rules how its image was chosen.
var kindNames = map[string]string{result.Healed: "Healed", result.NotHealed: "Not healed", result.Broken: "Broken"}

// gallery is nil where the suite has no cases and nothing is to be said about that.
func gallery(s table.Suite, g *result.Gallery) *galleryView {
	if g == nil {
		return nil
	}
	v := &galleryView{Slug: s.Slug}
	kinds := map[string]bool{}
	for _, c := range g.Cases {
		i := slices.IndexFunc(s.Columns, words.Column{Attack: c.Attack, Epsilon: &c.Epsilon}.Same)
		if c.Suite != s.Name || i < 0 || s.Cell(c.Model, c.Defense, s.Columns[i]) == nil {
			continue
		}
		kinds[c.Kind] = true
		v.Cases = append(v.Cases, galleryCase(s, c, s.Columns[i]))
	}
	for _, n := range g.Notes {
		if n.Suite == s.Name {
			v.Notes = append(v.Notes, words.Clean(n.Message))
		}
	}
	if v.Cases == nil && v.Notes == nil {
		return nil
	}
	v.Rule = galleryRule(kinds)
	if s.Seeds() > 1 {
		v.Rule += " The adversarial images are those of the first seed."
	}
	return v
}

// galleryRule says by which rule cases of these kinds were chosen.
func galleryRule(kinds map[string]bool) string {
	chosen := "that the attack broke"
	if kinds[result.Healed] || kinds[result.NotHealed] {
		chosen = "that the attack broke and the control healed, and the first that the control did not heal"
	}
	return "Chosen by verdicts, not by looks: of each attack and control the first image, in data set order, " +
		chosen + ", looked for from a place that moves on from case to case."
}

// galleryCase arranges one case.
func galleryCase(s table.Suite, c result.GalleryCase, col words.Column) galleryCard {
	p, name := c.Pictures, classOf(c.Label, c.LabelName)
	defense := words.DefenseName(c.Defense)
	out := galleryCard{Heading: fmt.Sprintf("%s: image %d, %s", kindNames[c.Kind], c.Image, name), Small: max(p.Width,
		p.Height) <= smallPicture, Trace: courseOf(c.Trace)}
	facts := []string{words.Clean(c.Model), defense, col.Title(), s.Attacker().Name}
	if c.Defense == "none" {
		facts = slices.Delete(facts, 1, 2)
	}
	out.Facts = strings.Join(facts, " · ")
	add := func(name, alt string, data []byte, note string, answers ...galleryAnswer) {
		one := galleryPicture{Name: name, Alt: alt, Width: p.Width, Height: p.Height, Note: note, Answers: answers}
		if data != nil {
			one.Source = template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(data))
		}
		out.Pictures = append(out.Pictures, one)
	}
	before := []galleryAnswer{answer("undefended", c.Undefended.Clean, c.Label)}
	if c.Controlled != nil {
		before = append(before, answer("controlled", c.Controlled.Clean, c.Label))
	}
	add("Clean", fmt.Sprintf("Image %d as it is, labelled %s", c.Image, name), p.Clean, "", before...)
	size := words.NormName(c.Norm) + " norm " + words.Strength(c.Norm, c.Perturbation)
	if c.VerdictOnly {
		size += ", at the attack's first success"
	}
	add("Perturbation ×"+words.ThreeDigits(p.Magnification), fmt.Sprintf("What the attack added to image %d, %s times as "+
		"strong, around mid-grey", c.Image, words.ThreeDigits(p.Magnification)), p.Perturbation, size)
	add("Adversarial", fmt.Sprintf("Image %d after the attack", c.Image), p.Adversarial, "",
		answer("undefended", c.Undefended.Adversarial, c.Label))
	if c.Controlled == nil {
		return out
	}
	healed, alt, note := "Healed", fmt.Sprintf("Image %d after the attack and the control of the input", c.Image), ""
	if c.Kind != result.Healed {
		healed = "Controlled" // which did not heal it
	}
	if p.Healed == nil {
		note = "acts on hidden states" + layersOf(c.Trace) + ": no picture"
	}
	add(healed, alt, p.Healed, note, answer("controlled", c.Controlled.Adversarial, c.Label))
	return out
}

// classOf names a class.
func classOf(class int, name string) string {
	if name == "" {
		return "class " + strconv.Itoa(class)
	}
	return words.Clean(name)
}

// answer is what a network says, with its margin.
func answer(who string, a result.GalleryAnswer, label int) galleryAnswer {
	return galleryAnswer{Who: who, Class: classOf(a.Class, a.Name), Margin: words.Signed(a.Margin), Right: a.Class == label}
}

// layersOf names the layers of a trace.
func layersOf(t []result.GallerySweep) string {
	if len(t) == 0 {
		return ""
	}
	var names []string
	for _, l := range t[0].Layers {
		names = append(names, words.LayerName(l.At))
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// courseOf says a trace in words.
func courseOf(t []result.GallerySweep) string {
	if len(t) == 0 {
		return ""
	}
	var objectives, norms []string
	for _, s := range t {
		objectives = append(objectives, words.FourDigits(s.Objective))
	}
	for _, l := range t[len(t)-1].Layers {
		norms = append(norms, fmt.Sprintf("%s at %s", words.ThreeDigits(l.ControlNorm), words.LayerName(l.At)))
	}
	out := "Objective " + objectives[0]
	if len(t) > 1 {
		course := strings.Join(objectives, " → ")
		out = fmt.Sprintf("Objective %s (greedy start, %s)", course, words.Plural(len(t)-1, "sweep"))
	}
	return out + "; ‖u_t‖ " + strings.Join(norms, ", ") + "."
}
