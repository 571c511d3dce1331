package pickle

import (
	"reflect"
	"strings"
	"testing"

	"selfheal/internal/must"
)

// key writes a text of one letter in protocol 3.
func key(letter string) string { return "X\x01\x00\x00\x00" + letter }

// sample has a value of every kind but arrays.
var sample = "\x80\x03}q\x00(" + key("a") + "K\x07" + key("b") + "](K\x01M\x00\x02J\xff\xff\xff\xffe" +
	key("c") + "N\x88\x86" + key("d") + "B\x2c\x01\x00\x00" + strings.Repeat("x", 300) + key("e") + "h\x00" + "u."

func read(data string) (map[string]any, error) {
	return Read(strings.NewReader(data), int64(len(data)))
}

// Values agree with Python's; large bytes stay in the file.
func TestRead(t *testing.T) {
	d := must.Get(read(sample))(t)
	for k, want := range map[string]any{"a": 7, "b": &List{[]any{1, 512, -1}}, "c": &List{[]any{nil, true}},
		"d": Bytes{int64(strings.Index(sample, "xxx")), 300}} {
		if !reflect.DeepEqual(d[k], want) {
			t.Errorf("%s is %v, not %v", k, d[k], want)
		}
	}
	if numbers, ok := Wholes(d["b"]); !ok || len(numbers) != 3 {
		t.Errorf("b has the numbers %v", numbers)
	}
	if _, ok := Wholes(d["c"]); ok {
		t.Error("c is numbers")
	}
	if self, ok := d["e"].(*Dict); !ok || len(self.Items) != 5 {
		t.Errorf("e is %v", d["e"])
	}
}

func TestErrors(t *testing.T) {
	for data, want := range map[string]string{
		"":                      "it is no Python pickle of protocols 2 to 5",
		"\x80\x06}.":            "it is no Python pickle of protocols 2 to 5",
		"\x80\x02}":             "its pickle can't be read at byte 3: it is cut short",
		"\x80\x02}T\xff\x00":    "its pickle can't be read at byte 3: it is cut short",
		"\x80\x02cos\nsystem\n": "its pickle can't be read at byte 13: it is cut short",
		"\x80\x02cos\nsystem\n)R.": `its pickle can't be read at byte 14: it calls "os system", which ` +
			"CIFAR's files do not; nothing is run",
		"\x80\x02c" + strings.Repeat("\x1b", 900) + "\n\n)R.":  `it calls "` + strings.Repeat(`\x1b`, 60) + `", which`,
		"\x80\x02c" + strings.Repeat("\x1b", 5000) + "\n\n)R.": "a name does not end",
		"\x80\x02\x8a.":         "its pickle can't be read at byte 2: it has the opcode 0x8a, which CIFAR's",
		"\x80\x02]q\x00.":       "its pickle is no dictionary",
		"\x80\x02h\x07.":        "its pickle can't be read at byte 2: it refers to a value that is not there",
		"\x80\x02u.":            "its pickle can't be read at byte 2: a mark is missing",
		"\x80\x02a.":            "its pickle can't be read at byte 2: a value is missing",
		"\x80\x02}K\x01K\x02s.": "its pickle can't be read at byte 7: a dictionary with texts as keys is missing",
		"\x80\x02}K\x01a.":      "its pickle can't be read at byte 5: a list is missing",
		"\x80\x02}Nb.":          "its pickle can't be read at byte 4: an array's description is missing",
		"\x80\x02" + strings.Repeat("(", maxValues+2): "its pickle can't be read at byte 2097154: it holds more than " +
			"2097152 values",

		"\x80\x02c_codecs\nencode\n)R.": "at byte 19: Python 3 wrote it by protocol 2; write it by pickle.dump's own",
	} {
		_, err := read(data)
		must.Refuse(t, err, want)
	}
}
