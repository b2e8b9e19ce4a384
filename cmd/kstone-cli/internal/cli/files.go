package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// Output is an output that keeps its first error: a command need not look at each write.
type Output struct {
	io.Writer
	Err error
}

// Write implements io.Writer.
func (o *Output) Write(b []byte) (n int, err error) {
	if o.Err == nil {
		n, o.Err = o.Writer.Write(b)
	}
	return n, o.Err
}

// ToFlag adds --to to a command that writes a file.
func (a *App) ToFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "to", "", "write to this `FILE`, which exists when it is complete;\n"+
		"default: standard output")
	_ = cmd.MarkFlagFilename("to")
}

// Into runs fn with a.Out being the named file, or what it was if the name is empty. The file has
// its name only when fn has succeeded; a file of that name is replaced.
func (a *App) Into(name string, fn func() error) (err error) {
	if name == "" {
		return fn()
	}
	f, err := a.NewFile(name)
	if err != nil {
		return err
	}
	out, tty, color := a.Out, a.OutTTY, a.Color
	defer func() { a.Out, a.OutTTY, a.Color = out, tty, color }()
	a.Out, a.OutTTY, a.Color = f, false, false
	if err = fn(); err != nil {
		return errors.Join(err, f.Drop())
	}
	return f.Close()
}

// File is an output that has its name when it is complete. A device or pipe, which is not replaced,
// has it from the beginning.
type File struct {
	*os.File
	name string // "" for a device or pipe
}

// NewFile creates a file that gets the name with Close. A link leads to the file that is replaced.
func (a *App) NewFile(name string) (*File, error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return nil, Usage("%s is a directory, not a file", name)
	case err == nil && !info.Mode().IsRegular():
		f, err := a.openFile(name, os.O_WRONLY)
		return &File{File: f}, err
	case err == nil:
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return nil, err
		}
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return nil, renamed(err, name)
	}
	if err := f.Chmod(0o644); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return &File{f, name}, nil
}

// Stdin returns standard input, from which a command reads what it names. That of a shell has its
// commands.
func (a *App) Stdin(what, hint string) (io.Reader, error) {
	if a.Open != nil {
		return nil, Usage("a shell cannot read %s from its own input", what).WithHint("%s", hint)
	}
	if a.InTTY {
		_, _ = io.WriteString(a.Err, "reading from the terminal; Ctrl-D ends the input\n")
	}
	return a.In, nil
}

// OpenFile opens a file for reading. What is read of a pipe ends with the context of the command.
func (a *App) OpenFile(name string) (in io.ReadCloser, info fs.FileInfo, err error) {
	f, err := a.openFile(name, os.O_RDONLY)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	if info.Mode().IsRegular() {
		return f, info, nil
	}
	return struct {
		io.Reader
		io.Closer
	}{Interruptible(a.Context, f), f}, info, nil
}

// openFile waits for the other end of a pipe until the context of the command ends.
func (a *App) openFile(name string, flag int) (*os.File, error) {
	return await(a.Context, func() (*os.File, error) { return os.OpenFile(name, flag, 0) })
}

// renamed returns an error about a file that has not got its name yet, with its name.
func renamed(err error, name string) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return &fs.PathError{Op: e.Op, Path: name, Err: e.Err}
	}
	return err
}

// Write implements io.Writer.
func (f *File) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	if err != nil && f.name != "" {
		err = renamed(err, f.name)
	}
	return n, err
}

// Close gives the file its name.
func (f *File) Close() error {
	if f.name == "" {
		return f.File.Close()
	}
	err := errors.Join(f.Sync(), f.File.Close())
	if err == nil {
		err = os.Rename(f.File.Name(), f.name)
	}
	if err != nil {
		err = errors.Join(renamed(err, f.name), os.Remove(f.File.Name()))
	}
	return err
}

// Drop removes a file that is not complete.
func (f *File) Drop() error {
	err := f.File.Close()
	if f.name != "" {
		err = errors.Join(err, os.Remove(f.File.Name()))
	}
	return err
}

// Interruptible returns a reader that fails when ctx ends, also while it waits for input.
func Interruptible(ctx context.Context, r io.Reader) io.Reader {
	return &interruptible{ctx: ctx, r: r, results: make(chan readResult, 1)}
}

type interruptible struct {
	ctx     context.Context
	r       io.Reader
	buf     []byte
	rest    []byte // of buf, not returned yet
	err     error  // after rest
	waiting bool   // for a read that is under way
	results chan readResult
}

type readResult struct {
	n   int
	err error
}

// Read implements io.Reader. What it waits for is read into a buffer of its own, which the
// caller never sees half filled.
func (i *interruptible) Read(b []byte) (int, error) {
	if len(i.rest) == 0 && i.err == nil {
		if !i.waiting {
			if i.buf == nil {
				i.buf = make([]byte, 64<<10)
			}
			i.waiting = true
			go func() {
				n, err := i.r.Read(i.buf)
				i.results <- readResult{n, err}
			}()
		}
		select {
		case <-i.ctx.Done():
			return 0, i.ctx.Err()
		case got := <-i.results:
			i.waiting, i.rest, i.err = false, i.buf[:got.n], got.err
		}
	}
	n := copy(b, i.rest)
	if i.rest = i.rest[n:]; len(i.rest) > 0 {
		return n, nil
	}
	return n, i.err
}
