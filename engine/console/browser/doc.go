// Package browser tests the console in a browser. It is a module of its own, since a program with a
// console needs none.
package browser
