package hub

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Options name the hub and the folder of its files.
type Options struct {
	Endpoint string            // address of the hub
	Folder   string            // the cache, with models--user--repo and .locks
	Token    string            // sent only to Endpoint; empty: none
	Towers   bool              // Use and Pull bring the file along that shows a model pictures
	Heads    bool              // also choose the file of a draft model for it
	Offline  bool              // nothing is asked of the network
	Links    bool              // symbolic links are used if the system has them
	Note     func(line string) // gets lines about what takes time, such as another process's download; may be nil
}

// Environment returns the options that the variables of huggingface_hub and of llama.cpp name, and their defaults.
func Environment() (Options, error) {
	o := Options{
		Endpoint: first("MODEL_ENDPOINT", "HF_ENDPOINT"),
		Offline:  truth(first("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")),
		Links:    !truth(os.Getenv("HF_HUB_DISABLE_SYMLINKS")),
	}
	if o.Endpoint == "" {
		o.Endpoint = "https://huggingface.co"
	}
	home, err := hubHome()
	if err != nil {
		return o, err
	}
	if o.Folder = expand(first("LLAMA_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")); o.Folder == "" {
		o.Folder = filepath.Join(home, "hub")
	}
	o.Token, err = token(home)
	return o, err
}

// hubHome returns the folder of huggingface_hub, with its cache and its token.
func hubHome() (string, error) {
	if dir := expand(os.Getenv("HF_HOME")); dir != "" {
		return dir, nil
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "huggingface"), nil
	}
	home, err := os.UserHomeDir() // on Windows and macOS, too: the cache is not in the system's own place there
	if err != nil {
		return "", fmt.Errorf("%w; HF_HOME names the folder for models", err)
	}
	return filepath.Join(home, ".cache", "huggingface"), nil
}

// first returns the value of the first variable that is set.
func first(names ...string) string {
	for _, n := range names {
		if v := os.Getenv(n); v != "" {
			return v
		}
	}
	return ""
}

// truth reads a switch as huggingface_hub does.
func truth(s string) bool {
	return slices.Contains([]string{"1", "ON", "YES", "TRUE"}, strings.ToUpper(s))
}

// expand replaces ~ and variables in a folder's name, as huggingface_hub does.
func expand(dir string) string {
	dir = os.ExpandEnv(dir)
	if rest, ok := strings.CutPrefix(dir, "~"); ok && (rest == "" || os.IsPathSeparator(rest[0])) {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return dir
}

// token returns the user's token: the variable's, or that in the file that a login writes.
func token(home string) (string, error) {
	if t := strings.TrimSpace(first("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")); t != "" {
		return t, checkToken(t)
	}
	if truth(os.Getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		return "", nil
	}
	path := expand(os.Getenv("HF_TOKEN_PATH"))
	if path == "" {
		path = filepath.Join(home, "token")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", nil // most users have none
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostToken))
	if err != nil {
		return "", nil
	}
	t := strings.TrimSpace(string(b))
	if checkToken(t) != nil {
		return "", fmt.Errorf("%s does not hold a token; log in again, or remove it", path)
	}
	return t, nil
}

// checkToken refuses what cannot stand in a header. The message does not repeat it.
func checkToken(t string) error {
	if strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the token for the hub holds characters that no token has")
	}
	return nil
}

// parseEndpoint reads the hub's address.
func parseEndpoint(s string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(s, "/"))
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("HF_ENDPOINT %.100q is not the address of a hub, such as https://huggingface.co", s)
	}
	return u, nil
}
