//go:build !linux

package ort

// trimHeap does nothing: the C libraries of other systems give memory back by themselves.
func trimHeap() {}
