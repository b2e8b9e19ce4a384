package command

import "github.com/spf13/cobra"

func (a *app) shellCommand() *cobra.Command {
	return &cobra.Command{Use: "shell DB", Short: "x", RunE: func(*cobra.Command, []string) error { return nil }}
}
func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{Use: "demo", Short: "x", RunE: func(*cobra.Command, []string) error { return nil }}
}
