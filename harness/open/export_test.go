package open

import "selfheal/internal/memory"

// SetMemory replaces the numbers of free and used memory.
func SetMemory(free func() (int64, bool), resident func() int64) {
	freeMemory, residentMemory = free, resident
}

// ResetMemory asks the system for them again.
func ResetMemory() { freeMemory, residentMemory = memory.Free, memory.Resident }
