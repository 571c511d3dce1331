package number

import (
	"encoding/json"
	"strconv"
)

// Any is a number that may be NaN or infinite: JSON, which has no such numbers, gets a text for them.
type Any float64

// MarshalJSON writes a number, or NaN, +Inf or -Inf as a text.
func (v Any) MarshalJSON() ([]byte, error) {
	if !Finite(float64(v)) {
		return json.Marshal(strconv.FormatFloat(float64(v), 'g', -1, 64))
	}
	return json.Marshal(float64(v))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Any) UnmarshalJSON(text []byte) error {
	var word string
	if json.Unmarshal(text, &word) != nil {
		return json.Unmarshal(text, (*float64)(v))
	}
	f, err := strconv.ParseFloat(word, 64)
	*v = Any(f)
	return err
}
