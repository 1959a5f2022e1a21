package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Bounds on the hub's answers.
const (
	mostFiles = 200_000   // in a repository
	mostBytes = 1 << 50   // of a file
	mostJSON  = 64 << 20  // bytes of one answer
	mostPages = 1000      // of a list of files
	mostError = 64 << 10  // bytes of an answer with an error
	mostToken = 16 << 10  // bytes of the file that holds the token
	mostRef   = 1 << 10   // bytes of a file that names a commit
	mostTree  = 256 << 20 // bytes of a list of files that was kept
)

// treeEntry is a file in the hub's list of a repository's files.
type treeEntry struct {
	Type string `json:"type"`
	Path string `json:"path"`
	OID  string `json:"oid"` // Git's SHA-1
	Size int64  `json:"size"`
	LFS  *struct {
		OID  string `json:"oid"` // SHA-256 of the content
		Size int64  `json:"size"`
	} `json:"lfs"`
	Xet string `json:"xetHash"`
}

// readTree reads a page of the hub's list. Files with names that cannot be stored below a folder, or without a hash,
// are left out; then whole is false.
func readTree(r io.Reader) (files []File, whole bool, err error) {
	var entries []treeEntry
	if err := decode(r, &entries); err != nil {
		return nil, false, err
	}
	if len(entries) > mostFiles {
		return nil, false, fmt.Errorf("a list of %d files", len(entries))
	}
	whole = true
	for _, e := range entries {
		if e.Type != "file" {
			continue
		}
		f := File{Path: e.Path, Size: e.Size, OID: e.OID, git: e.OID, xet: e.Xet}
		if e.LFS != nil {
			f.OID, f.Size = e.LFS.OID, e.LFS.Size
		}
		if !f.valid() {
			whole = false
			continue
		}
		files = append(files, f)
	}
	return files, whole, nil
}

// valid reports whether f can be kept under its name and checked.
func (f *File) valid() bool {
	hashed := f.OID == f.git || f.sha256() != "" && validOID(f.OID)
	return validPath(f.Path) && validCommit(f.git) && hashed && f.Size >= 0 && f.Size <= mostBytes
}

// decode reads one JSON value of at most mostJSON bytes, and nothing after it.
func decode(r io.Reader, v any) error {
	d := json.NewDecoder(&io.LimitedReader{R: r, N: mostJSON})
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows its JSON")
	}
	return nil
}

// treeFile is a repository's list of files as huggingface_hub keeps it, in trees/COMMIT.json.
type treeFile struct {
	Version int                     `json:"format_version"`
	Files   map[string]treeFileItem `json:"files"`
}

type treeFileItem struct {
	Size    int64   `json:"size"`
	BlobID  string  `json:"blob_id"`
	SHA256  *string `json:"lfs_sha256,omitempty"`
	LFSSize *int64  `json:"lfs_size,omitempty"`
	Xet     *string `json:"xet_hash,omitempty"`
}

const treeVersion = 1

// encodeTree returns the content of trees/COMMIT.json.
func encodeTree(files []File) ([]byte, error) {
	t := treeFile{Version: treeVersion, Files: make(map[string]treeFileItem, len(files))}
	for _, f := range files {
		item := treeFileItem{Size: f.Size, BlobID: f.git}
		if len(f.OID) == 64 {
			item.SHA256, item.LFSSize = &f.OID, &f.Size
		}
		if f.xet != "" {
			item.Xet = &f.xet
		}
		t.Files[f.Path] = item
	}
	return json.MarshalIndent(t, "", " ")
}

// decodeTree reads trees/COMMIT.json; a damaged one, or one of another version, counts as none.
func decodeTree(data []byte) (files []File, ok bool) {
	var t treeFile
	if json.Unmarshal(data, &t) != nil || t.Version != treeVersion || len(t.Files) > mostFiles {
		return nil, false
	}
	for path, item := range t.Files {
		f := File{Path: path, Size: item.Size, OID: item.BlobID, git: item.BlobID}
		if item.SHA256 != nil {
			f.OID = *item.SHA256
		}
		if item.LFSSize != nil {
			f.Size = *item.LFSSize
		}
		if f.valid() {
			files = append(files, f)
		}
	}
	return files, true
}
