//go:build !linux

package ort

func keepingSignalStack(do func()) { do() }
