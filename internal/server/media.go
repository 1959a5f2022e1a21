package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/picture"
	"github.com/powerinfer-go/powerinfer/internal/vision"
)

// maxPictures is the largest number of pictures of one request.
const maxPictures = 100

// MediaMark stands for a picture in texts that clients write and read.
const MediaMark = "<__media__>"

// attached counts a request's pictures and bounds how they are fetched.
type attached struct {
	web      *web
	pictures int
	until    time.Time // when pictures of the network must have come; zero: none was asked for
}

// Sees reports whether the model can be shown pictures.
func (m *Model) Sees() bool { return m.Tower != nil }

// Pictures reads the pictures of one request.
type Pictures struct {
	model  *Model
	fields *Fields
	err    error
}

// Pictures returns what reads the pictures of a request.
func (m *Model) Pictures(f *Fields) *Pictures { return &Pictures{model: m, fields: f} }

// Shown reports whether there is a model to show pictures to. p may be nil.
func (p *Pictures) Shown() bool { return p != nil && p.model.Sees() }

// Err returns the first error of reading a picture. p may be nil.
func (p *Pictures) Err() error {
	if p == nil {
		return nil
	}
	return p.err
}

// Read returns the picture that a client gives as a data URI, as base64 or as an address. It reserves the memory that
// the picture takes. After an error it returns that.
func (p *Pictures) Read(source string) (*picture.Image, error) {
	if !p.Shown() { // which is known before anything is decoded
		return nil, Invalid("image input is not supported: %s", vision.ErrNoTower)
	}
	if p.err != nil { // the request is refused: nothing more is fetched and decoded for it
		return nil, p.err
	}
	m, err := p.read(source)
	p.err = err
	return m, err
}

func (p *Pictures) read(source string) (*picture.Image, error) {
	ctx, sent := p.fields.context(), p.fields.media
	if sent == nil {
		sent = &attached{}
	}
	if sent.pictures++; sent.pictures > maxPictures {
		return nil, Invalid("the request has more than %d pictures; send fewer", maxPictures)
	}
	data, fetched, err := sent.bytes(ctx, source)
	if err != nil {
		return nil, err
	}
	cost, err := picture.Cost(data, picture.Limits{})
	if err != nil {
		return nil, Invalid("%s", err)
	}
	if err := reserve(ctx, cost); err != nil {
		return nil, err
	}
	m, err := picture.Decode(data, picture.Limits{})
	if err != nil {
		return nil, Invalid("%s", err)
	}
	unreserve(ctx, fetched+cost-int64(len(m.Pix)))
	return m, nil
}

// bytes returns a picture's file, and how many bytes of memory were reserved for it because it was no part of the body.
func (s *attached) bytes(ctx context.Context, source string) (data []byte, fetched int64, err error) {
	if source = strings.TrimSpace(source); source == "" {
		return nil, 0, Invalid("a picture has no data: send it as a data URI with base64, since the server stores no files that a request could name")
	}
	scheme, _, isURI := strings.Cut(source[:min(len(source), 8)], ":")
	if !isURI {
		data, err = fromBase64(source)
		return data, 0, err
	}
	switch strings.ToLower(scheme) {
	case "data":
		data, err = dataURI(source[len("data:"):])
	case "http", "https":
		if s.until.IsZero() {
			s.until = time.Now().Add(webTime)
		}
		ctx, cancel := context.WithDeadline(ctx, s.until)
		defer cancel()
		data, err = s.web.fetch(ctx, source)
		fetched = int64(cap(data))
	case "file":
		err = Invalid("pictures are not read from the server's files; send the picture itself, as a data URI with base64")
	default:
		err = Invalid("a picture's address cannot be used: %.100q is neither a data URI nor an address of the kind https://host/path", source)
	}
	return data, fetched, err
}

// dataURI returns the data of a URI after its scheme: a type and parameters, which mean nothing here, a comma, and the
// data.
func dataURI(rest string) ([]byte, error) {
	head, data, ok := strings.Cut(rest, ",")
	if !ok {
		return nil, Invalid("a picture's data URI has no comma before its data; it is data:image/png;base64, and the base64 of the file")
	}
	if strings.Contains(data, "%") {
		plain, err := url.PathUnescape(data)
		if err != nil {
			return nil, Invalid("a picture's data URI has a percent sign that is no escape")
		}
		data = plain
	}
	if parameters := strings.Split(strings.ToLower(head), ";"); strings.TrimSpace(parameters[len(parameters)-1]) != "base64" {
		return []byte(data), nil
	}
	return fromBase64(data)
}

// fromBase64 decodes base64 in either alphabet, with or without padding and line breaks.
func fromBase64(text string) ([]byte, error) {
	data := make([]byte, 0, len(text))
	for i := range len(text) {
		switch c := text[i]; c {
		case ' ', '\t', '\r', '\n':
		case '-':
			data = append(data, '+')
		case '_':
			data = append(data, '/')
		default:
			data = append(data, c)
		}
	}
	data = bytes.TrimRight(data, "=")
	n, err := base64.RawStdEncoding.Decode(data, data)
	if err != nil || n == 0 {
		return nil, Invalid("a picture is neither base64 nor a data URI nor an address: %.40q", text)
	}
	return data[:n], nil
}

// PictureTypes are the types of parts that are pictures in OpenAI's forms.
var PictureTypes = []string{"image_url", "input_image", "computer_screenshot"}

// PictureURL returns the address of a part of PictureTypes: a text, or an object with one as url. It is empty where the
// part has none.
func PictureURL(part json.RawMessage) string {
	var p struct {
		Image json.RawMessage `json:"image_url"`
	}
	json.Unmarshal(part, &p) // without one there is no address
	var address string
	if json.Unmarshal(p.Image, &address) == nil {
		return address
	}
	var object struct {
		URL string `json:"url"`
	}
	json.Unmarshal(p.Image, &object)
	return object.URL
}
