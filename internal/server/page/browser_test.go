package page_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestBrowser: the page in Chromium, with a server of the embedded model and one of several models. PAGE_PICTURES is a
// folder for screenshots.
func TestBrowser(t *testing.T) {
	testenv.Thorough(t)
	browser := programOf(t, "chromium", "chromium", "chromium-browser", "google-chrome")
	web := sources(t)
	try := exec.CommandContext(t.Context(), "node", "test/page.mjs", browser, serve(t)+"/", serveLibrary(t)+"/", os.Getenv("PAGE_PICTURES"))
	try.Dir = web
	try.Stdout, try.Stderr = t.Output(), t.Output() // as it comes, for a step that hangs
	if err := try.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestConversations: the page's handling of conversations and files, without a browser.
func TestConversations(t *testing.T) {
	testenv.Thorough(t)
	try := exec.CommandContext(t.Context(), "node", "--test", "test/pure.mjs")
	try.Dir = sources(t)
	if out, err := try.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// sources returns the folder of the page's sources, with what its tests need; without npm the test is skipped.
func sources(t *testing.T) string {
	t.Helper()
	programOf(t, "npm", "node")
	programOf(t, "npm", "npm")
	web := filepath.Join(testenv.Root(t), "web")
	for _, last := range []string{"axe-core", "fflate"} {
		if _, err := os.Stat(filepath.Join(web, "node_modules", last)); err == nil {
			continue
		}
		install := exec.CommandContext(t.Context(), "npm", "ci", "--prefer-offline")
		install.Dir = web
		if out, err := install.CombinedOutput(); err != nil {
			testenv.Missing(t, "npm", "npm ci fails in web: "+string(out))
		}
	}
	return web
}

// programOf returns the path of the first of names that is installed. Without any the test is skipped, or fails if what
// is required.
func programOf(t *testing.T, what string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if at, err := exec.LookPath(name); err == nil {
			return at
		}
	}
	testenv.Missing(t, what, names[0]+" is absent")
	return ""
}
