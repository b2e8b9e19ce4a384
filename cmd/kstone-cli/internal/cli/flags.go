package cli

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/engine"
)

// choice makes a flag one of some words, or nothing: it completes them, and refuses others with a
// hint. Name is what the message calls the flag.
func choice(cmd *cobra.Command, flag, name string, value *string, words []string, hint string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words,
		cobra.ShellCompDirectiveNoFileComp))
	Before(cmd, func() error {
		if *value == "" || slices.Contains(words, *value) {
			return nil
		}
		return Usage("%s is %s, not %q", name, OneOf(words), *value).WithHint("%s", hint)
	})
}

// OneOf lists words to choose one from: "a, b or c".
func OneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// InputFlag adds -i to a command that has keys or values as arguments. Help describes them; "" is
// the form that the command takes without -i.
func (a *App) InputFlag(cmd *cobra.Command, help string) {
	cmd.Flags().StringVarP(&a.Input, "input", "i", "", help)
	choice(cmd, "input", "-i", &a.Input, InputForms, "")
}

// InputForms are the values of -i.
var InputForms = []string{"text", "escaped", "hex", "base64"}

// InputFormHelp is the help of -i for keys and values.
const InputFormHelp = "`FORM` of keys and values: text (default), escaped (\\x00, \\n), hex\n" +
	"or base64"

// DurabilityFlag adds --durability to a command that writes.
func (a *App) DurabilityFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.Durability, "durability", a.Durability,
		"`LEVEL`: what an acknowledged write survives, sync (power cut)\nor process (kill)")
	choice(cmd, "durability", "--durability", &a.Durability, []string{"sync", "process"},
		"sync survives a power cut, process a kill of the program")
}

// Levels are the values of --durability.
var Levels = map[string]engine.Durability{"": engine.DefaultDurability, "sync": engine.Sync,
	"process": engine.Process}

// Level returns the durability that --durability names.
func (a *App) Level() engine.Durability { return Levels[a.Durability] }

// elsewhere explains flags that only some commands have.
var elsewhere = map[string]string{
	"input":      "-i is about keys and values on the command line, or in plain lines",
	"durability": "--durability is about writes to a database",
}

// BytesOf returns the bytes that an argument denotes in the form of --input.
func (a *App) BytesOf(what, text string) ([]byte, error) {
	b, err := a.ReadForm(text)
	var bad *formError
	if errors.As(err, &bad) {
		return nil, Usage("%s %v", what, bad).WithHint("%s", bad.hint)
	}
	return b, err
}

// formError reports that a text is not of the form that --input names.
type formError struct{ text, hint string }

func (e *formError) Error() string { return e.text }

// ReadForm returns the bytes that a text in the form of --input denotes. The error is a *formError.
func (a *App) ReadForm(text string) (b []byte, err error) {
	hint := fmt.Sprintf("-i %s applies to all keys and values of the command", a.Input)
	switch a.Input {
	case "text", "":
		return []byte(text), nil
	case "hex":
		if b, err = hex.DecodeString(strings.ReplaceAll(text, " ", "")); err != nil {
			err = &formError{fmt.Sprintf("%q is not hexadecimal", text), hint}
		}
	case "base64":
		if b, err = base64.StdEncoding.DecodeString(text); err != nil {
			err = &formError{fmt.Sprintf("%q is not base64", text), hint}
		}
	case "escaped":
		var s string
		if s, err = strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`); err != nil {
			err = &formError{fmt.Sprintf("%q has a bad escape", text),
				`escapes are those of Go strings: \n, \x00, \u00e9, \\`}
		}
		b = []byte(s)
	}
	return b, err
}

// AppendForm appends bytes in the form of --input, so that ReadForm reads them back.
func (a *App) AppendForm(dst, b []byte) []byte {
	switch a.Input {
	case "hex":
		return hex.AppendEncode(dst, b)
	case "base64":
		return base64.StdEncoding.AppendEncode(dst, b)
	case "escaped":
		return append(dst, layout.Show(b)...)
	}
	return append(dst, b...)
}

// Arg returns a key argument.
func (a *App) Arg(what, text string) (layout.Arg, error) {
	b, err := a.BytesOf(what, text)
	return layout.Arg{Bytes: b, Stored: a.Input == "hex" || a.Input == "base64"}, err
}

// Args returns several key arguments.
func (a *App) Args(what string, texts []string) ([]layout.Arg, error) {
	var out []layout.Arg
	for _, text := range texts {
		arg, err := a.Arg(what, text)
		if err != nil {
			return nil, err
		}
		out = append(out, arg)
	}
	return out, nil
}

// SetFlag adds --set to a command that may create a database. In a shell the database is
// open, and has its settings.
func (a *App) SetFlag(cmd *cobra.Command) {
	if a.Open != nil {
		return
	}
	cmd.Flags().StringArrayVar(&a.Set, "set", nil, "choose a setting of the database, as"+
		" `NAME=VALUE` (repeatable);\n"+Program+" help settings explains them")
	_ = cmd.RegisterFlagCompletionFunc("set", CompleteSetting)
}

// Choose sets the options that NAME=VALUE words name.
func Choose(o *engine.Options, words []string) error {
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if !ok {
			return Usage("setting %q: want NAME=VALUE", w).
				WithHint("for example compression=zstd; %s help settings explains them", Program)
		}
		if err := o.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// CompleteSetting completes NAME=VALUE.
func CompleteSetting(_ *cobra.Command, _ []string, prefix string) ([]string,
	cobra.ShellCompDirective) {
	name, _, named := strings.Cut(prefix, "=")
	var found []string
	for _, s := range engine.DefaultSettings() {
		switch {
		case !named:
			found = append(found, s.Name+"=")
		case s.Name == name:
			for _, v := range s.Values {
				found = append(found, name+"="+v)
			}
		}
	}
	found = slices.DeleteFunc(found, func(c string) bool { return !strings.HasPrefix(c, prefix) })
	if named {
		return found, cobra.ShellCompDirectiveNoFileComp
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// InternalFlag adds --internal to a command on all items.
func (a *App) InternalFlag(cmd *cobra.Command, internal *bool) {
	cmd.Flags().BoolVar(internal, "internal", false, "also what belongs to tables and indexes")
}
