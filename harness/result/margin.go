package result

import (
	"encoding/json"
	"math"

	"selfheal/internal/number"
)

// Margin is a difference of logits. JSON has null for NaN and infinite ones; null is read as NaN.
type Margin float64

// MarshalJSON writes a number or null.
func (m Margin) MarshalJSON() ([]byte, error) {
	if !number.Finite(float64(m)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(m))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (m *Margin) UnmarshalJSON(text []byte) error {
	v := math.NaN()
	if string(text) != "null" {
		if err := json.Unmarshal(text, &v); err != nil {
			return err
		}
	}
	*m = Margin(v)
	return nil
}
