// Package memo keeps what functions return.
package memo

// Of is f, which is called once for each argument. It is not safe for concurrent use.
func Of[K comparable, V any](f func(K) V) func(K) V {
	known := map[K]V{}
	return func(k K) V {
		v, ok := known[k]
		if !ok {
			v = f(k)
			known[k] = v
		}
		return v
	}
}
