package hub

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Name names a model of the hub: a repository, and one of its models.
type Name struct {
	Repo  string // user/repo
	Tag   string // part of the file's name, such as Q4_K_M, in any case; empty: the usual ones, see choose
	File  string // the file's path in the repository, which wins over Tag
	Draft bool   // the repository's draft model, if it has one in addition to models
}

// String returns the name as ParseName reads it.
func (n Name) String() string {
	switch {
	case n.File != "":
		return n.Repo + "/" + n.File
	case n.Tag != "":
		return n.Repo + ":" + n.Tag
	}
	return n.Repo
}

// sites lists the prefixes of a repository's name in addresses of its page and in Ollama's names.
var sites = []string{"https://huggingface.co/", "https://hf.co/", "huggingface.co/", "hf.co/"}

// IsAddress reports whether a text is an address of the hub's pages or files, or begins as Ollama's names of them do.
func IsAddress(s string) bool {
	return slices.ContainsFunc(sites, func(site string) bool { return strings.HasPrefix(s, site) })
}

// ParseName reads user/repo, user/repo:TAG, user/repo/FILE.gguf, or the address of a repository or of one of its files.
func ParseName(s string) (Name, error) {
	bad := func(why string) (Name, error) {
		return Name{}, fmt.Errorf("%.100q does not name a model: %s; write user/repo, user/repo:Q4_K_M or user/repo/file.gguf", s, why)
	}
	text := s
	for _, site := range sites {
		if rest, ok := strings.CutPrefix(text, site); ok {
			text = pathOf(rest)
			break
		}
	}
	text, tag, tagged := strings.Cut(text, ":")
	user, rest, ok := strings.Cut(text, "/")
	if !ok {
		return bad("it has no /")
	}
	repo, file, named := strings.Cut(rest, "/")
	n := Name{Repo: user + "/" + repo}
	if err := checkRepo(n.Repo); err != nil {
		return bad(err.Error())
	}
	switch {
	case tagged && named:
		return bad("it has both a file and a tag")
	case tagged && tag != "latest": // that is Ollama's word for none
		if !validTag(tag) {
			return bad("the tag is not one")
		}
		n.Tag = tag
	case named:
		if view, f, ok := strings.Cut(file, "/"); ok && IsAddress(s) && (view == "blob" || view == "resolve") {
			if file, ok = strings.CutPrefix(f, "main/"); !ok {
				return bad("only files of the branch main are fetched")
			}
		}
		if !validPath(file) || !strings.HasSuffix(file, ggufSuffix) {
			return bad("the file is not a GGUF file of a repository")
		}
		n.File = file
	}
	return n, nil
}

// pathOf returns the path that an address has at the site. It leaves out /tree/main of a repository's list of files, and
// what follows ? and #, unless that names a file that the page shows.
func pathOf(address string) string {
	address, _, _ = strings.Cut(address, "#")
	path, query, _ := strings.Cut(address, "?") // ?download=true
	path = strings.TrimSuffix(strings.TrimSuffix(path, "/"), "/tree/main")
	if values, err := url.ParseQuery(query); err == nil && values.Get("show_file_info") != "" {
		return path + "/" + values.Get("show_file_info")
	}
	if plain, err := url.PathUnescape(path); err == nil {
		return plain
	}
	return path
}

const ggufSuffix = ".gguf"

// The hub's bounds on names, and our own.
const (
	longestPart = 96   // of a repository's name, on each side of its slash
	longestTag  = 64   // a quantisation's name and what authors put before it
	longestPath = 1024 // of a file in a repository
	longestFile = 255  // of each name in a path; file systems have this bound
)

// namePart is one side of a repository's name.
var namePart = regexp.MustCompile(`^[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?$`)

// checkRepo checks a repository's name against the hub's rules. Without .. and -- it can also be a folder's name that
// leads back to it.
func checkRepo(repo string) error {
	parts := strings.Split(repo, "/")
	if len(parts) != 2 {
		return errors.New("it is not user/repo")
	}
	for _, p := range parts {
		if len(p) > longestPart || !namePart.MatchString(p) || strings.Contains(p, "..") || strings.Contains(p, "--") || strings.HasSuffix(p, ".git") {
			return fmt.Errorf("%.100q is not a name of the hub's", p)
		}
	}
	return nil
}

var tagPattern = regexp.MustCompile(`^[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?$`)

func validTag(tag string) bool { return len(tag) <= longestTag && tagPattern.MatchString(tag) }

// deviceName matches names that Windows takes for devices, with any extension.
var deviceName = regexp.MustCompile(`(?i)^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])( *[.:].*)?$`)

// validPath reports whether a path of a repository, with slashes, is a path below a folder on every system: it has no
// empty or special names, nothing that a system reads as a separator, a drive, a stream or a device, and no control
// characters.
func validPath(path string) bool {
	if path == "" || len(path) > longestPath {
		return false
	}
	for name := range strings.SplitSeq(path, "/") {
		switch {
		case name == "", name == ".", name == "..", len(name) > longestFile, strings.ContainsAny(name, `\:*?"<>|`),
			strings.HasSuffix(name, "."), strings.HasSuffix(name, " "), deviceName.MatchString(name), strings.ToValidUTF8(name, "") != name:
			return false
		}
		for _, r := range name {
			if r < ' ' || r == 0x7f {
				return false
			}
		}
	}
	return true
}

var (
	commitPattern = regexp.MustCompile(`^[0-9a-f]{40}$`)
	oidPattern    = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)
)

// validCommit reports whether s is Git's SHA-1 of a commit, or of anything else.
func validCommit(s string) bool { return commitPattern.MatchString(s) }

// validOID reports whether s identifies a file's content: its SHA-256, or Git's SHA-1 if Git stores it itself.
func validOID(s string) bool { return oidPattern.MatchString(s) }
