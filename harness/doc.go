// Package harness is the path from a config to results, a room for each part of it:
//
//	config → plan → Walk ─┬─ run       opens (open), attacks, judges; certify proves
//	                      ├─ shard     a part of a run, the merge of parts, submitting them to a cluster
//	                      └─ forecast  passes and hours, of nothing done
//	run → folder           the lock, the journal and the results of an output folder
//	result → compare, gate, reports
//	fit                    embeddings, which open finds again
//	dataset, stats         images; intervals and tests
//	progress               what all of them report while they work
//	doctor, vnnlib         the installation; verification properties
package harness

// Version is selfheal's.
const Version = "0.1.0"
