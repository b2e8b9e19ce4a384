// Package kv has the vocabulary of items that the engine and every other store share: items, blocks
// and results of them, samples, errors. Packages engine and engine/store have names for it. It
// knows of no files: what is above engine/store depends on it, and not on the engine.
package kv
