package command

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
)

// output is where results go instead of the terminal: a file, or the input of a program.
type output struct {
	io.WriteCloser
	program *exec.Cmd // nil for a file
	shown   bool      // the program shows it on the terminal
	gone    bool      // the program reads no more
}

// Write writes to the file or program. A program that ends early has seen enough.
func (o *output) Write(b []byte) (int, error) {
	n, err := o.WriteCloser.Write(b)
	if err != nil && o.program != nil && (o.gone || errors.Is(err, syscall.EPIPE)) {
		o.gone = true
		return len(b), nil
	}
	return n, err
}

// Close waits for the program, or gives the file its name.
func (o *output) Close() error {
	err := o.WriteCloser.Close()
	if o.program != nil {
		return o.program.Wait()
	}
	return err
}

// drop removes a file that is not complete. What a program has read stays read.
func (o *output) drop() error {
	if f, ok := o.WriteCloser.(*cli.File); ok {
		return f.Drop()
	}
	return o.Close()
}

// pipe starts a program of the system's shell that reads what is written.
func (s *session) pipe(line string, shown bool) (*output, error) {
	cmd := exec.Command("sh", "-c", line)
	if runtime.GOOS == "windows" {
		cmd = exec.Command("cmd", "/C", line)
	}
	cmd.Stdout, cmd.Stderr = s.app.Out, s.app.Err
	if os.Getenv("LESS") == "" {
		cmd.Env = append(os.Environ(), "LESS=FRSX")
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return &output{WriteCloser: in, program: cmd, shown: shown}, cmd.Start()
}

// setOutput sends results to a file, to a program after "|", or with nothing or "-" to the terminal
// again.
func (s *session) setOutput(name string, once bool) error {
	if name == "" && once {
		return cli.Usage("name a file, or | and a program")
	}
	s.closeOutput()
	if name == "" || name == "-" {
		return nil
	}
	var err error
	to := &output{}
	if line, ok := strings.CutPrefix(name, "|"); ok {
		to, err = s.pipe(strings.TrimSpace(line), false)
	} else {
		app := s.command()
		ctx, stop := signal.NotifyContext(s.ctx, os.Interrupt)
		defer stop()
		app.Context = ctx
		to.WriteCloser, err = app.NewFile(name)
	}
	if err != nil {
		return err
	}
	s.output, s.once = to, once
	return nil
}

// endOnce goes back to the terminal after the command that .once was for. If that has failed, the
// file is not left half full.
func (s *session) endOnce(err error) {
	if s.once && err != nil {
		s.report(s.output.drop())
		s.output, s.once = nil, false
	}
	if s.once {
		s.closeOutput()
	}
}

func (s *session) closeOutput() {
	if s.output != nil {
		s.report(s.output.Close())
	}
	s.output, s.once = nil, false
}

// page sends the result of one command to the pager, if it is on, and returns what waits for it.
func (s *session) page() (done func()) {
	if s.preferences[".pager"] != "on" || s.output != nil || !s.app.OutTTY || !s.app.InTTY {
		return func() {}
	}
	line := os.Getenv("PAGER")
	if line == "" {
		line = "less"
	}
	to, err := s.pipe(line, true)
	if err != nil {
		s.report(err)
		return func() {}
	}
	s.output = to
	return func() {
		_ = to.Close() // what the pager returns is about its keys
		s.output = nil
	}
}
