package command

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
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/engine"
)

// inputFlag adds -i to a command that has keys or values as arguments. What of them is said
// by help; "" stands for the form that the command takes without -i.
func (a *app) inputFlag(cmd *cobra.Command, help string) {
	cmd.Flags().StringVarP(&a.input, "input", "i", "", help)
	_ = cmd.RegisterFlagCompletionFunc("input", cobra.FixedCompletions(inputForms,
		cobra.ShellCompDirectiveNoFileComp))
	before(cmd, func() error {
		if a.input == "" || slices.Contains(inputForms, a.input) {
			return nil
		}
		return usage("-i is text, escaped, hex or base64, not %q", a.input)
	})
}

var inputForms = []string{"text", "escaped", "hex", "base64"}

const inputFormHelp = "`FORM` of keys and values: text (default), escaped (\\x00, \\n), hex\n" +
	"or base64"

// durabilityFlag adds --durability to a command that writes.
func (a *app) durabilityFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.durability, "durability", a.durability,
		"`LEVEL`: what an acknowledged write survives, sync (power cut)\nor process (kill)")
	before(cmd, func() error {
		if _, ok := levels[a.durability]; ok {
			return nil
		}
		return usage("--durability is sync or process, not %q", a.durability).
			withHint("sync survives a power cut, process a kill of the program")
	})
}

// levels are the values of --durability.
var levels = map[string]engine.Durability{"": engine.DefaultDurability, "sync": engine.Sync,
	"process": engine.Process}

// level returns the durability that --durability names.
func (a *app) level() engine.Durability { return levels[a.durability] }

// elsewhere says of flags that only some commands have what they are about.
var elsewhere = map[string]string{
	"input":      "-i is about keys and values that stand on the command line, or in plain lines",
	"durability": "--durability is about writes to a database",
}

// bytesOf returns the bytes that an argument stands for, as --input says.
func (a *app) bytesOf(what, text string) ([]byte, error) {
	b, err := a.readForm(text)
	var bad *formError
	if errors.As(err, &bad) {
		return nil, usage("%s %v", what, bad).withHint("%s", bad.hint)
	}
	return b, err
}

// formError says that a text is not of the form that --input names.
type formError struct{ text, hint string }

func (e *formError) Error() string { return e.text }

// readForm returns the bytes that a text in the form of --input stands for. The error is a
// *formError.
func (a *app) readForm(text string) (b []byte, err error) {
	hint := fmt.Sprintf("-i %s applies to all keys and values of the command", a.input)
	switch a.input {
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

// appendForm appends bytes in the form of --input, so that readForm reads them back.
func (a *app) appendForm(dst, b []byte) []byte {
	switch a.input {
	case "hex":
		return hex.AppendEncode(dst, b)
	case "base64":
		return base64.StdEncoding.AppendEncode(dst, b)
	case "escaped":
		return append(dst, layout.Show(b)...)
	}
	return append(dst, b...)
}

// arg returns a key argument.
func (a *app) arg(what, text string) (layout.Arg, error) {
	b, err := a.bytesOf(what, text)
	return layout.Arg{Bytes: b, Stored: a.input == "hex" || a.input == "base64"}, err
}

func (a *app) args(what string, texts []string) ([]layout.Arg, error) {
	var out []layout.Arg
	for _, text := range texts {
		arg, err := a.arg(what, text)
		if err != nil {
			return nil, err
		}
		out = append(out, arg)
	}
	return out, nil
}

const formatHelp = "`FORMAT`: table, jsonl, json, csv, raw (values only) or hex;\n" +
	"default: table on a terminal, jsonl in a pipe"

// keyFlags name the sort key of one item.
type keyFlags struct {
	sk    string
	parts []string
	cmd   *cobra.Command
}

func (k *keyFlags) add(a *app, cmd *cobra.Command) {
	k.cmd = cmd
	a.inputFlag(cmd, inputFormHelp)
	cmd.Flags().StringVar(&k.sk, "sk", "", "sort `KEY`; one of several fields as '[\"A\",\"B\"]'")
	cmd.Flags().StringArrayVar(&k.parts, "sk-part", nil,
		"`VALUE` of one field of a sort key that has several (repeat for each)")
}

// key returns the key that PK and the flags name.
func (k *keyFlags) key(a *app, s *layout.Schema, pkText string) (key engine.Key, err error) {
	pk, err := a.arg("PK", pkText)
	if err != nil {
		return key, err
	}
	if key.PK, err = s.PK(pk); err != nil {
		return key, err
	}
	if len(key.PK) == 0 {
		return key, engine.ErrEmptyPK
	}
	switch {
	case len(k.parts) > 0 && k.cmd.Flags().Changed("sk"):
		return key, usage("--sk and --sk-part exclude each other")
	case len(k.parts) > 0:
		parts, err := a.args("--sk-part", k.parts)
		if err != nil {
			return key, err
		}
		if key.SK, err = s.SKOfParts(parts); err != nil {
			return key, err
		}
	case k.cmd.Flags().Changed("sk"):
		arg, err := a.arg("--sk", k.sk)
		if err != nil {
			return key, err
		}
		if key.SK, err = s.SK(arg); err != nil {
			return key, err
		}
	}
	return key, key.Validate()
}

// conditionFlags restrict the sort keys of a query.
type conditionFlags struct {
	cmd    *cobra.Command
	prefix []string
}

var conditionOps = []struct {
	flag, help string
	op         layout.Op
}{
	{"sk-eq", "sort keys equal to `V`", layout.Equal},
	{"sk-lt", "sort keys below `V`", layout.Less},
	{"sk-le", "sort keys up to `V`", layout.LessEqual},
	{"sk-gt", "sort keys above `V`", layout.Greater},
	{"sk-ge", "sort keys from `V` on", layout.GreaterEqual},
	{"sk-between", "sort keys from A to B, both included, as `A,B` or '[\"A\",\"B\"]'",
		layout.Between},
	{"sk-begins-with", "sort keys that begin with `P`", layout.BeginsWith},
}

func (c *conditionFlags) add(a *app, cmd *cobra.Command) {
	c.cmd = cmd
	a.inputFlag(cmd, inputFormHelp)
	for _, o := range conditionOps {
		cmd.Flags().String(o.flag, "", o.help)
	}
	cmd.Flags().StringArrayVarP(&c.prefix, "sk-prefix", "p", nil,
		"`VALUE` of the first field of a sort key that has several\n"+
			"(repeat it for the next fields)")
}

// given reports whether any condition was given.
func (c *conditionFlags) given() bool {
	for _, o := range conditionOps {
		if c.cmd.Flags().Changed(o.flag) {
			return true
		}
	}
	return len(c.prefix) > 0
}

// condition reads the flags.
func (c *conditionFlags) condition(a *app) (out layout.Condition, err error) {
	used := ""
	for _, o := range conditionOps {
		if !c.cmd.Flags().Changed(o.flag) {
			continue
		}
		if used != "" {
			return out, usage("--%s and --%s exclude each other", used, o.flag).
				withHint("for a range with two ends use --sk-between A,B")
		}
		used, out.Op = o.flag, o.op
		text, _ := c.cmd.Flags().GetString(o.flag)
		if o.op == layout.Between {
			var b string
			if text, b, err = layout.SplitBetween(text); err != nil {
				return out, err
			}
			if out.B, err = a.arg("--"+o.flag, b); err != nil {
				return out, err
			}
		}
		if out.A, err = a.arg("--"+o.flag, text); err != nil {
			return out, err
		}
	}
	out.Prefix, err = a.args("--sk-prefix", c.prefix)
	return out, err
}

// bytesValue is a flag for a number of bytes, with a unit if one is given.
type bytesValue int64

// Set implements pflag.Value.
func (v *bytesValue) Set(text string) error {
	n, err := present.ParseBytes(text)
	*v = bytesValue(n)
	return err
}

// String implements pflag.Value.
func (v *bytesValue) String() string { return strconv.FormatInt(int64(*v), 10) }

// Type implements pflag.Value.
func (v *bytesValue) Type() string { return "bytes" }
