package open

import "selfheal/internal/memory"

// SetMemory has pools take other numbers for the memory that is free and that the process holds.
func SetMemory(free func() (int64, bool), resident func() int64) {
	freeMemory, residentMemory = free, resident
}

// ResetMemory has them ask the system again.
func ResetMemory() { freeMemory, residentMemory = memory.Free, memory.Resident }
