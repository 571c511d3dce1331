package onnx

import "fmt"

// A refusal is a panic that carries an error about a user's model from a rule to a function that defers [Refused].
// Exported functions that may panic with one say so.
type refusal struct{ error }

// Refuse ends a rule with an error.
func Refuse(format string, args ...any) { panic(refusal{fmt.Errorf(format, args...)}) }

// Require refuses the model unless ok.
func Require(ok bool, format string, args ...any) {
	if !ok {
		Refuse(format, args...)
	}
}

// Must refuses an error.
func Must(err error) {
	if err != nil {
		panic(refusal{err})
	}
}

// Sure returns a call's result, or refuses the model if the call has failed.
func Sure[T any](v T, err error) T {
	Must(err)
	return v
}

// Refused turns a refusal into the error of the function that defers it.
func Refused(err *error) {
	switch r := recover().(type) {
	case nil:
	case refusal:
		*err = r.error
	default:
		panic(r)
	}
}

// at returns a part's result. It prefixes the error of a refusal with the part's place.
func at[T any](part func() T, place string, args ...any) T {
	v, err := func() (v T, err error) {
		defer Refused(&err)
		return part(), nil
	}()
	if err != nil {
		Refuse("%s: %w", fmt.Sprintf(place, args...), err)
	}
	return v
}
