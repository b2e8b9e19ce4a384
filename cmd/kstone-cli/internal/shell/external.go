package shell

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/reeflective/readline"
)

// externalEdit makes the keys that open an editor open that of the user. Why not the library's own
// commands: they take none that VISUAL or EDITOR names.
func externalEdit(rl *readline.Shell) {
	edit := func() {
		text, err := editText(string(*rl.Line()))
		if err != nil {
			rl.Hint.SetTemporary("the editor failed, the text is unchanged: " + err.Error())
			return
		}
		rl.Line().Set([]rune(text)...)
		rl.Cursor().Set(rl.Line().Len())
	}
	rl.Keymap.Register(map[string]func(){
		"edit-command-line": edit, "edit-and-execute-command": edit,
		"vi-edit-command-line": edit, "vi-edit-and-execute-command": edit,
	})
}

// editText returns what the user makes of a text in the program that VISUAL or EDITOR names, with
// its arguments.
func editText(text string) (edited string, err error) {
	f, err := os.CreateTemp("", "kstone-*.sql")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.WriteString(text + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	program := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	cmd := exec.Command("sh", "-c", program+` "$1"`, "sh", f.Name())
	if runtime.GOOS == "windows" {
		cmd = exec.Command("cmd", "/C", cmp.Or(os.Getenv("EDITOR"), "notepad"), f.Name())
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", err
	}
	b, err := os.ReadFile(f.Name())
	return strings.TrimRight(string(b), "\r\n"), err
}
