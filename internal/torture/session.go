package torture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// Session is the life of one child.
type Session struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	pipe   io.ReadCloser
	ended  chan struct{} // closed when the child has said its last

	mu     sync.Mutex // guards what the child has said
	ready  bool
	acked  []int // the last acknowledged step of each worker
	synced []int // the last that survives a power cut
	steps  int
	copies map[string][]int // complete checkpoints: acked when they began
	bad    error            // a line that makes no sense
}

// Start runs a child of the program in command, which calls Child if Env is set.
func Start(command []string, o Order) (*Session, error) {
	order, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	s := &Session{
		ended: make(chan struct{}), copies: map[string][]int{},
		acked: slices.Clone(o.From), synced: slices.Clone(o.From),
	}
	s.cmd = exec.Command(command[0], command[1:]...)
	s.cmd.Env = append(os.Environ(), Env+"="+string(order))
	s.cmd.Stderr = &s.stderr
	if s.pipe, err = s.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go s.listen()
	return s, nil
}

func (s *Session) listen() {
	defer close(s.ended)
	lines := bufio.NewReader(s.pipe)
	began := map[string][]int{}
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return // what the kill has torn was not said
		}
		s.mu.Lock()
		if err := s.hear(strings.Fields(line), began); err != nil && s.bad == nil {
			s.bad = fmt.Errorf("the child says %q: %w", line, err)
		}
		s.mu.Unlock()
	}
}

func (s *Session) hear(words []string, began map[string][]int) error {
	if len(words) == 1 && words[0] == "ready" {
		s.ready = true
		return nil
	}
	if len(words) == 2 {
		switch name := words[1]; words[0] {
		case "copying":
			began[name] = slices.Clone(s.acked)
		case "copied":
			s.copies[name] = began[name]
		case "dropping":
			delete(s.copies, name)
		}
		return nil
	}
	var w, num, synced int
	_, err := fmt.Sscanf(strings.Join(words, " "), "ack %d %d %d", &w, &num, &synced)
	if err != nil {
		return err
	}
	if w < 0 || w >= len(s.acked) || num != s.acked[w]+1 {
		return errors.New("not the next step of a worker")
	}
	s.acked[w] = num
	if synced == 1 {
		s.synced[w] = num
	}
	s.steps++
	return nil
}

// kill ends the child after d, or when ctx ends, and returns when all that it has said is
// known. A child that ended by itself is an error.
func (s *Session) kill(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-s.ended:
	}
	early := errors.Is(s.cmd.Process.Kill(), os.ErrProcessDone)
	<-s.ended
	err := s.cmd.Wait()
	// Not by the exit status, which does not tell on every system: a child that ends by
	// itself says why.
	if err != nil && err.Error() == "signal: interrupt" {
		return errInterrupted // Ctrl-C, before Child could refuse it
	}
	if early || err == nil || s.stderr.Len() > 0 {
		return fmt.Errorf("the writer ended by itself: %v\n%s", err,
			strings.TrimSpace(s.stderr.String()))
	}
	return s.bad
}

// Ended is closed when the child has ended, of itself or because it was killed.
func (s *Session) Ended() <-chan struct{} { return s.ended }

// Acked returns the last step that each worker has acknowledged, and the last one that
// it said survives a power cut, as far as known at the moment.
func (s *Session) Acked() (acked, synced []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.acked), slices.Clone(s.synced)
}

// Stop kills the child, waits for it, and returns what it wrote to standard error and how
// it ended. It may have ended before.
func (s *Session) Stop() (said string, end error) {
	_ = s.cmd.Process.Kill()
	<-s.ended
	end = s.cmd.Wait()
	return s.stderr.String(), end
}
