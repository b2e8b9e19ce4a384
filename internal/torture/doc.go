// Package torture writes to a database, kills the process that writes, opens the
// database again, and checks it against what was acknowledged.
//
// The writer is a process of its own: Child runs in it. Several goroutines (workers)
// each follow a program, an endless sequence of steps that is computed from a seed.
// Every worker has keys of its own, so that what they hold after a given number of steps
// is known exactly; many of the steps also write the worker's counter, in the same commit,
// so the database itself shows how far it got. Acknowledged steps are reported through a
// pipe, which survives the kill. Check then compares: no acknowledged step may be missing,
// no step be there in part, no deleted item be back, whatever the kill interrupted.
//
// The changes of all commits, read on after each kill from where the last check ended, must make
// exactly what the database has, and a stream beside the workers must have each commit once.
//
// Beside their own keys the workers move amounts between shared accounts in
// transactions; the sum must stay the same.
//
// Run is the parent: it starts children, kills them with SIGKILL at random moments, a third
// of them early, while they recover, and checks after each.
package torture
