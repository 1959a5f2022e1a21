package anthropic

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/server"
)

// Pages of the list of models have usualPage models unless a request says how many, up to mostPage.
const (
	usualPage = 20
	mostPage  = 1000
)

// listed is a model of the list.
type listed struct {
	Type    string    `json:"type"`
	ID      string    `json:"id"`
	Name    string    `json:"display_name"`
	Created time.Time `json:"created_at"`
}

func listedOf(s *server.Server, m *server.Listed) listed {
	at := m.Modified
	if at.IsZero() {
		at = s.Began()
	}
	return listed{"model", m.Name, m.Name, at.UTC().Truncate(time.Second)}
}

// page is a part of the list of models.
type page struct {
	Data  []listed `json:"data"`
	First *string  `json:"first_id"`
	Last  *string  `json:"last_id"`
	More  bool     `json:"has_more"` // in the direction that was asked for
}

// listModels lists models, those after after_id or before before_id if given.
func listModels(s *server.Server, w http.ResponseWriter, r *http.Request) error {
	query, limit := r.URL.Query(), usualPage
	if text := query.Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > mostPage {
			return server.Invalid("limit: %.40q is not a number from 1 to %d", text, mostPage)
		}
	}
	all := s.Models.List()
	at := func(name string) (int, error) {
		i := slices.IndexFunc(all, func(m server.Listed) bool { return m.Name == query.Get(name) })
		if i < 0 {
			return 0, server.Invalid("%s: there is no model %.100q", name, query.Get(name))
		}
		return i, nil
	}
	p := page{Data: []listed{}}
	switch {
	case query.Has("after_id") && query.Has("before_id"):
		return server.Invalid("after_id and before_id exclude each other")
	case query.Has("before_id"):
		i, err := at("before_id")
		if err != nil {
			return err
		}
		from := max(0, i-limit)
		all, p.More = all[from:i], from > 0
	default:
		if query.Has("after_id") {
			i, err := at("after_id")
			if err != nil {
				return err
			}
			all = all[i+1:]
		}
		p.More = len(all) > limit
		all = all[:min(limit, len(all))]
	}
	for i := range all {
		p.Data = append(p.Data, listedOf(s, &all[i]))
	}
	if n := len(p.Data); n > 0 {
		p.First, p.Last = &p.Data[0].ID, &p.Data[n-1].ID
	}
	server.WriteJSON(w, p)
	return nil
}

// showModel answers with a model.
func showModel(s *server.Server, w http.ResponseWriter, r *http.Request) error {
	m, err := s.Listed(r.PathValue("id"))
	if err != nil {
		return err
	}
	server.WriteJSON(w, listedOf(s, m))
	return nil
}
