package command_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a program on a pseudo-terminal.
type terminal struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd

	mu    sync.Mutex
	grown *sync.Cond
	out   bytes.Buffer // everything so far
	seen  int          // how much of its text was expected already
	asked int          // how many prompts were waited for
	ended bool
}

// startTerminal runs kstone-cli on a terminal of 100 columns and 30 rows.
func startTerminal(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	return startSized(t, 100, env, args...)
}

// startSized is startTerminal with a number of columns.
func startSized(t *testing.T, cols uint16, env []string, args ...string) *terminal {
	t.Helper()
	return startProgram(t, "kstone-cli", cols, env, args...)
}

// startProgram runs any program on a terminal of 30 rows.
func startProgram(t *testing.T, name string, cols uint16, env []string, args ...string) *terminal {
	t.Helper()
	path, err := exec.LookPath(name)
	ok(t, err)
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	ok(t, err)
	ok(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	size := &unix.Winsize{Row: 30, Col: cols}
	ok(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, size))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	ok(t, err)
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.Env = append(append(os.Environ(), "TERM=xterm-256color"), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	ok(t, cmd.Start())
	slave.Close()
	x := &terminal{t: t, master: master, cmd: cmd}
	x.grown = sync.NewCond(&x.mu)
	go x.read()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		master.Close()
	})
	return x
}

// read keeps what the program writes, until it ends.
func (x *terminal) read() {
	b := make([]byte, 4096)
	for {
		n, err := x.master.Read(b)
		x.mu.Lock()
		x.out.Write(b[:n])
		x.ended = err != nil
		x.grown.Broadcast()
		x.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// escapes are sequences that a terminal does not show.
var escapes = regexp.MustCompile("\x1b(\\[[0-9;?]*[ ]?[a-zA-Z]|[78=>])")

// expect waits until the program has shown a text, after what was expected before.
func (x *terminal) expect(want string) {
	x.t.Helper()
	x.await(fmt.Sprintf("%q", want), func() bool {
		text := escapes.ReplaceAllString(x.out.String(), "")
		i := strings.Index(text[min(x.seen, len(text)):], want)
		if i >= 0 {
			x.seen += i + len(want)
		}
		return i >= 0
	})
}

// prompt waits until the line editor reads keys again. Why not for the text of the prompt: it is
// drawn with each key, and what is sent while a command runs is not the editor's.
func (x *terminal) prompt() {
	x.t.Helper()
	x.asked++
	x.await("the next prompt", func() bool {
		return strings.Count(x.out.String(), "\x1b[?2004h") >= x.asked
	})
}

// await waits until shown reports true, which is asked with mu locked.
func (x *terminal) await(what string, shown func() bool) {
	x.t.Helper()
	late := time.AfterFunc(time.Minute, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.ended = true
		x.grown.Broadcast()
	})
	defer late.Stop()
	x.mu.Lock()
	defer x.mu.Unlock()
	for !shown() {
		if x.ended {
			text := escapes.ReplaceAllString(x.out.String(), "")
			x.t.Fatalf("%s was not shown after\n%s\nbut\n%s", what,
				text[:min(x.seen, len(text))], text[min(x.seen, len(text)):])
		}
		x.grown.Wait()
	}
}

// rest waits for the end of the program and returns everything that it wrote, and its exit code.
func (x *terminal) rest() (out string, code int) {
	x.t.Helper()
	err := x.cmd.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	for !x.ended {
		x.grown.Wait()
	}
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		x.t.Fatal(err)
	}
	return x.out.String(), x.cmd.ProcessState.ExitCode()
}

func (x *terminal) send(keys string) {
	x.t.Helper()
	if _, err := x.master.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// Keys as a terminal sends them.
const (
	ctrlC, ctrlD, ctrlR, tab, enter, up = "\x03", "\x04", "\x12", "\t", "\r", "\x1b[A"
)

// TestTerminal types into the shell.
//
// Promise (manners): The shell edits a statement of several lines as one text, keeps it whole
// in the history, completes it, and stops it by Ctrl-C.
func TestTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	history := filepath.Join(dir, "history")
	x := startTerminal(t, []string{"KSTONE_HISTORY=" + history, "HOME=" + dir}, "shell")
	x.prompt()
	x.send("create table towns (name text primary key);" + enter)
	x.prompt()
	x.send("insert into towns" + enter)
	x.expect("towns")
	x.send("values ('Pisa'), ('Nice');" + enter)
	x.expect("insert: 2 rows")
	x.prompt()

	// Both lines come back at once, and run again.
	x.send(up)
	x.expect("('Nice')")
	x.send(enter)
	x.expect("there is a row with the key")
	x.prompt()

	// A table after FROM, then Ctrl-R finds a statement by a word of its second line.
	x.send("select upper(name) from to" + tab)
	x.expect("towns")
	x.send(";" + enter)
	x.expect("NICE")
	x.prompt()
	x.send(ctrlR + "Nice")
	x.expect("values ('Pisa')")
	x.send(ctrlC) // ends the search
	x.expect("memory> ")

	// Another Ctrl-R finds the statement before.
	x.send(ctrlR + "towns" + ctrlR + enter)
	x.expect("there is a row with the key")
	x.prompt()
	x.send("count this is dropped")
	x.expect("dropped")
	x.send(ctrlC + "put k kept" + enter) // at once
	x.prompt()
	x.prompt()
	x.send("get k" + enter)
	x.expect("kept" + "\r\n")
	x.prompt()
	x.send(ctrlD)
	if out, code := x.rest(); code != 0 {
		t.Errorf("exit code %d after\n%s", code, out)
	}
	text, err := os.ReadFile(history)
	want := "insert into towns\n\tvalues ('Pisa'), ('Nice');\n"
	if err != nil || !strings.Contains(string(text), want) ||
		strings.Contains(string(text), "dropped") {
		t.Errorf("history %q, %v", text, err)
	}
}
