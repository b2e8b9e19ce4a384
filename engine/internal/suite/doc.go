// Package suite holds the random tests of package engine: programs under all options, power cuts,
// histories of concurrent calls. They share one language of operations (op), one way to draw them
// (drawer), one model of a database (items) and one driver (run), which does an operation on a
// database and on the model and compares.
//
// A program is text, one operation a line: what a failing test prints is what TestStoredPrograms
// runs again. The programs in testdata have failed once.
package suite
