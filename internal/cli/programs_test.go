package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
)

// What `selfheal schema` prints is what lies in docs/schema.
func TestSchemaCommand(t *testing.T) {
	for _, name := range bundledGlobals().schemaNames() {
		var stdout, stderr bytes.Buffer
		code := run(context.Background(), repository, []string{"schema", name}, &stdout, &stderr)
		want, err := os.ReadFile("docs/schema/" + name + schemaSuffix)
		if err != nil || code != 0 || stdout.String() != string(want) {
			t.Errorf("%s: exit %d, %v\n%s", name, code, err, stderr.String())
		}
	}
}

// The words of the verbs that serve other programs, as in TestCommandLine.
func TestCommandLineForPrograms(t *testing.T) {
	for name, args := range map[string]string{
		"help-schema": "schema --help", "help-completion": "completion --help", "help-version": "version --help",
		"no-schema": "schema confg", "schema-without-name": "schema", "no-shell": "completion tcsh", "version-argument": "version now",
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(context.Background(), repository, strings.Fields(args), &stdout, &stderr)
			if n := strings.Count(stderr.String(), "\n"); code != 0 && n != 1 {
				t.Errorf("%d lines on stderr, want one", n)
			}
			golden(t, "cli/"+name+".txt", fmt.Sprintf("$ selfheal %s\nexit %d\n%s%s", args, code, stdout.String(), prefixed("stderr: ", stderr.String())))
		})
	}
}
