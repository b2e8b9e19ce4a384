package command_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// sequence is an escape sequence: CSI with a number or more and a letter, or ESC and one byte.
var sequence = regexp.MustCompile("^\x1b(?:\\[[?]?([0-9]*)[0-9;]* ?([a-zA-Z])|([^\\[]))")

// screenOf returns the lines that a terminal shows after a program has written text to it.
func screenOf(text string, cols, rows int) []string {
	lines := make([][]rune, rows)
	x, y := 0, 0
	down := func() {
		if y++; y == rows {
			y--
			lines = append(lines[1:], nil)
		}
	}
	for len(text) > 0 {
		if m := sequence.FindStringSubmatch(text); m != nil {
			text = text[len(m[0]):]
			n, _ := strconv.Atoi(m[1])
			many := max(n, 1)
			switch m[2] + m[3] {
			case "A":
				y = max(y-many, 0)
			case "B":
				y = min(y+many, rows-1)
			case "C":
				x = min(x+many, cols-1)
			case "D":
				if m[3] != "" { // ESC D
					down()
				} else {
					x = max(x-many, 0)
				}
			case "J":
				clear(lines[y+1:])
				fallthrough
			case "K":
				lines[y] = lines[y][:min(x, len(lines[y]))]
			}
			continue
		}
		r, size := []rune(text)[0], len(string([]rune(text)[0]))
		text = text[size:]
		switch r {
		case '\r':
			x = 0
		case '\n':
			down()
		default:
			if x == cols {
				x = 0
				down()
			}
			for len(lines[y]) <= x {
				lines[y] = append(lines[y], ' ')
			}
			lines[y][x] = r
			x++
		}
	}
	shown := make([]string, rows)
	for i, line := range lines {
		shown[i] = strings.TrimRight(string(line), " ")
	}
	return shown
}

// TestBottomOfTheScreen types below a screen that is full, where a line editor has no row left.
//
// Promise (manners): The shell shows every line of a result, also at the bottom of the screen.
func TestBottomOfTheScreen(t *testing.T) {
	t.Parallel()
	x := startTerminal(t, []string{"KSTONE_HISTORY=", "HOME=" + t.TempDir()}, "shell")
	x.prompt()
	var want []string
	for i := range 20 {
		text := ".maxrows " + strconv.Itoa(i+1)
		x.send(text + enter)
		x.prompt()
		x.send(".maxrows" + enter)
		x.expect("\n" + text + "\r")
		x.prompt()
		want = append(want, "memory> "+text, "memory> .maxrows", text)
	}
	x.send("select 1 as one," + enter)
	x.expect("one,")
	x.send("2 as two" + enter)
	x.expect("two")
	x.send(";" + enter)
	x.expect("time: ")
	x.prompt()
	x.send(ctrlD)
	out, _ := x.rest()
	shown := strings.Join(screenOf(out, 100, 30), "\n")
	statement := "memory> select 1 as one,\n        2 as two\n        ;\n╭"
	if !strings.Contains(shown, strings.Join(want[len(want)-12:], "\n")+"\n"+statement) {
		t.Errorf("the screen is\n%s", shown)
	}
}
