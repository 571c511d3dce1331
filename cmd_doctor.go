package main

import "github.com/spf13/cobra"

func doctorCommand(g *globals) *cobra.Command { return &cobra.Command{Use: "doctor", Hidden: true} }
