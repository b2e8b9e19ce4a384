// Package overview describes a database for people: what it holds, its files on disk, and what to
// do next, in HTML. It knows to which table or index an item belongs, and has the drawings and the
// style that the report of the command line and the console share.
package overview
