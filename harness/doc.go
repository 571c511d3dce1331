// Package harness leads from a config to results. Its rooms do the work, in this order:
//
//	config → plan → Walk ─┬─ run       opens networks (open), attacks, judges (judge); certify proves
//	                      ├─ shard     runs a part, merges parts, submits them to a cluster (cluster)
//	                      └─ forecast  counts passes and hours, and attacks nothing
//	run → folder           keeps the lock, the journal and the results of an output folder
//	result → compare, gate, reports
//	fit                    fits embeddings, which open finds again
//	cell                   identifies a cell, for all of them
//	dataset, stats         images; intervals and tests
//	progress               reports what all of them do
//	doctor, vnnlib         checks a model; answers verification properties
package harness

// Version is the version of selfheal.
const Version = "0.1.0"
