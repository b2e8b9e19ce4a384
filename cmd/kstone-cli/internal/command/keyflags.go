package command

import (
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/engine"
	"github.com/spf13/cobra"
)

// keyFlags name the sort key of one item.
type keyFlags struct {
	sk    string
	parts []string
	cmd   *cobra.Command
}

func (k *keyFlags) add(a *cli.App, cmd *cobra.Command) {
	k.cmd = cmd
	a.InputFlag(cmd, cli.InputFormHelp)
	cmd.Flags().StringVar(&k.sk, "sk", "", "sort `KEY`; one of several fields as '[\"A\",\"B\"]'")
	cmd.Flags().StringArrayVar(&k.parts, "sk-part", nil,
		"`VALUE` of one field of a sort key that has several (repeat for each)")
}

// key returns the key that PK and the flags name.
func (k *keyFlags) key(a *cli.App, s *layout.Schema, pkText string) (key engine.Key, err error) {
	pk, err := a.Arg("PK", pkText)
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
		return key, cli.Usage("--sk and --sk-part exclude each other")
	case len(k.parts) > 0:
		parts, err := a.Args("--sk-part", k.parts)
		if err != nil {
			return key, err
		}
		if key.SK, err = s.SKOfParts(parts); err != nil {
			return key, err
		}
	case k.cmd.Flags().Changed("sk"):
		arg, err := a.Arg("--sk", k.sk)
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

func (c *conditionFlags) add(a *cli.App, cmd *cobra.Command) {
	c.cmd = cmd
	a.InputFlag(cmd, cli.InputFormHelp)
	for _, o := range conditionOps {
		cmd.Flags().String(o.flag, "", o.help)
	}
	cmd.Flags().String("from", "", "sort keys from `KEY` on, like --sk-ge")
	cmd.Flags().String("to", "", "sort keys up to `KEY`, which is included, like --sk-le")
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
func (c *conditionFlags) condition(a *cli.App) (out layout.Condition, err error) {
	used := ""
	for _, o := range conditionOps {
		if !c.cmd.Flags().Changed(o.flag) {
			continue
		}
		if used != "" {
			return out, cli.Usage("--%s and --%s exclude each other", used, o.flag).
				WithHint("for a range with two ends use --sk-between A,B")
		}
		used, out.Op = o.flag, o.op
		text, _ := c.cmd.Flags().GetString(o.flag)
		if o.op == layout.Between {
			var b string
			if text, b, err = layout.SplitBetween(text); err != nil {
				return out, err
			}
			if out.B, err = a.Arg("--"+o.flag, b); err != nil {
				return out, err
			}
		}
		if out.A, err = a.Arg("--"+o.flag, text); err != nil {
			return out, err
		}
	}
	if name := givenOf(c.cmd, "from", "to"); name != "" {
		if used != "" {
			return out, cli.Usage("--%s and --%s exclude each other", used, name).
				WithHint("--from A --to B is the range from A to B")
		}
		if err = c.bounds(a, &out); err != nil {
			return out, err
		}
	}
	out.Prefix, err = a.Args("--sk-prefix", c.prefix)
	return out, err
}

// bounds reads --from and --to.
func (c *conditionFlags) bounds(a *cli.App, out *layout.Condition) (err error) {
	from, _ := c.cmd.Flags().GetString("from")
	to, _ := c.cmd.Flags().GetString("to")
	if out.A, err = a.Arg("--from", from); err != nil {
		return err
	}
	if out.B, err = a.Arg("--to", to); err != nil {
		return err
	}
	switch upper := c.cmd.Flags().Changed("to"); {
	case upper && c.cmd.Flags().Changed("from"):
		out.Op = layout.Between
	case upper:
		out.Op, out.A = layout.LessEqual, out.B
	default:
		out.Op = layout.GreaterEqual
	}
	return nil
}
