package hub

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseName(t *testing.T) {
	for text, want := range map[string]Name{
		"ggml-org/Qwen3-0.6B-GGUF":                      {Repo: "ggml-org/Qwen3-0.6B-GGUF"},
		"user/repo:Q4_K_M":                              {Repo: "user/repo", Tag: "Q4_K_M"},
		"user/repo:UD-Q4_K_XL":                          {Repo: "user/repo", Tag: "UD-Q4_K_XL"},
		"hf.co/user/repo:latest":                        {Repo: "user/repo"},
		"user/repo/sub/file.gguf":                       {Repo: "user/repo", File: "sub/file.gguf"},
		"https://hf.co/user/repo/resolve/main/a/b.gguf": {Repo: "user/repo", File: "a/b.gguf"},
		"_u_/a.b":                                                             {Repo: "_u_/a.b"},
		"https://huggingface.co/user/repo/":                                   {Repo: "user/repo"},
		"https://huggingface.co/user/repo/tree/main":                          {Repo: "user/repo"},
		"https://huggingface.co/user/repo:Q8_0":                               {Repo: "user/repo", Tag: "Q8_0"},
		"https://huggingface.co/user/repo?show_file_info=a%2Fb-Q8_0.gguf":     {Repo: "user/repo", File: "a/b-Q8_0.gguf"},
		"https://huggingface.co/user/repo/blob/main/b.gguf?download=true#top": {Repo: "user/repo", File: "b.gguf"},
		"https://huggingface.co/user/repo/resolve/main/a%20b.gguf":            {Repo: "user/repo", File: "a b.gguf"},
	} {
		if n, err := ParseName(text); err != nil || n != want {
			t.Errorf("%q is %+v (%v)", text, n, err)
		}
	}
	for _, text := range []string{
		"", "user", "user/", "/repo", "user/repo:", "user/repo:a:b", "user/repo:../x", "../../etc", "user/..", "user/a..b", "user/a--b", "user/-a", "user/a.", "user/a.git",
		"user/re po", "user\\repo", "user/repo/file.bin", "user/repo/../x.gguf", "user/repo//x.gguf", "user/repo/x.gguf:Q4_0", "http://evil.example/user/repo",
		"user/repo/con.gguf", "user/" + strings.Repeat("a", 97), "user/repo:" + strings.Repeat("a", 65), "usér/repo", "user/repo\n", "https://hf.co/user/repo/blob/v2/a.gguf", "user/repo/a\x00.gguf", "C:/x/y",
	} {
		if n, err := ParseName(text); err == nil {
			t.Errorf("%q is %+v", text, n)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: more than a line: %v", text, err)
		}
	}
}

func TestQuant(t *testing.T) {
	for path, want := range map[string]string{
		"a-Q4_K_M.gguf": "Q4_K_M", "a.q8_0.gguf": "Q8_0", "a-UD-IQ2_XXS-00001-of-00004.gguf": "UD-IQ2_XXS", "a-MXFP4_MOE.gguf": "MXFP4_MOE",
		"a-BF16.gguf": "BF16", "tiny-llama.gguf": "", "Q6_K.gguf": "", "dir/Q6_K.gguf": "Q6_K", "a-chat.gguf": "", "a-f16.gguf": "F16",
	} {
		if got := Quant(path); got != want {
			t.Errorf("%s: %q, not %q", path, got, want)
		}
	}
}

// FuzzParseName: every accepted name is possible for folders and files, and parses to itself again.
func FuzzParseName(f *testing.F) {
	for _, s := range []string{"user/repo", "user/repo:Q4_K_M", "hf.co/user/repo/a/b.gguf", "https://huggingface.co/u/r/blob/main/x.gguf?download=true", "../..", "a/b/../c.gguf"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseName(s)
		if err != nil {
			return
		}
		if again, err := ParseName(n.String()); err != nil || again != n {
			t.Errorf("%q is %+v, and %q is %+v (%v)", s, n, n, again, err)
		}
		folder := folderName(n.Repo)
		if repo, ok := repoName(folder); !ok || repo != n.Repo || !filepath.IsLocal(folder) || filepath.Base(folder) != folder {
			t.Errorf("%q has the folder %q, which is of %q", n.Repo, folder, repo)
		}
		if n.File != "" && (!filepath.IsLocal(filepath.FromSlash(n.File)) || strings.Contains(n.File, `\`)) {
			t.Errorf("%q is a file %q", s, n.File)
		}
	})
}

// FuzzTree: the hub's lists give only entries that can be stored.
func FuzzTree(f *testing.F) {
	const sha = "0123456789abcdef0123456789abcdef01234567"
	f.Add([]byte(`[{"type":"file","path":"a-Q4_0.gguf","size":5,"oid":"` + sha + `","lfs":{"oid":"` + sha + `890123456789abcdef012345","size":7}},{"type":"directory","path":"b"}]`))
	f.Add([]byte(`[{"type":"file","path":"../a","size":-1,"oid":"x"}]`))
	f.Add([]byte(`[{"type":"file","path":"a-00001-of-00002.gguf","size":1,"oid":"` + sha + `"},{"type":"file","path":"a-00002-of-00002.gguf","size":1,"oid":"` + sha + `"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		files, _, err := readTree(bytes.NewReader(data))
		if err != nil {
			return
		}
		unique := map[string]File{}
		for _, file := range files {
			if !filepath.IsLocal(filepath.FromSlash(file.Path)) || strings.Contains(file.Path, `\`) || file.Size < 0 || !validOID(file.OID) {
				t.Errorf("kept: %+v", file)
			}
			unique[file.Path] = file
		}
		for _, first := range models(files) {
			if list, err := parts(files, first); err == nil && len(list) == 0 {
				t.Errorf("%s has no parts", first)
			}
		}
		b, err := encodeTree(files)
		if err != nil {
			t.Fatal(err)
		}
		again, ok := decodeTree(b)
		if !ok || len(again) != len(unique) {
			t.Fatalf("%d files are kept as %d", len(unique), len(again))
		}
		for _, file := range again {
			if u := unique[file.Path]; u.OID != file.OID || u.Size != file.Size {
				t.Errorf("%+v is kept as %+v", u, file)
			}
		}
	})
}
