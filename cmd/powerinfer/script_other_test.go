//go:build !unix

package main

import "github.com/rogpeppe/go-internal/testscript"

var systemCommands = map[string]func(*testscript.TestScript, bool, []string){}
