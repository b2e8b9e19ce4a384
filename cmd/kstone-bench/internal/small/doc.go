// Package small measures what small databases cost: the files and bytes that a number of
// items leaves when they are written by one opening, or by as many as a command line
// makes that runs again and again, and the time of an opening, a write and a closing. The
// databases take turns within each opening, in one process, each with its defaults and with
// commits that survive a power cut.
package small
