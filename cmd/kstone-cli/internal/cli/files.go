package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

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
	f, err := NewFile(name)
	if err != nil {
		return err
	}
	out, tty, color := a.Out, a.OutTTY, a.Color
	defer func() { a.Out, a.OutTTY, a.Color = out, tty, color }()
	a.Out, a.OutTTY, a.Color = f, false, false
	err = fn()
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// NewFile creates a file that is to be renamed to name when it is complete.
func NewFile(name string) (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(0o644); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return f, nil
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
