package console

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/sql"
)

// maxBody bounds what a request may hold.
const maxBody = 1 << 20

// problem is an error as scripts read it. Line, Column and Offset, in bytes, are 0 if it has no
// place in a statement.
type problem struct {
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Excerpt string `json:"excerpt,omitempty"`
}

// problemOf describes an error.
func problemOf(ctx context.Context, err error) *problem {
	var placed *sql.Error
	if errors.Is(err, context.DeadlineExceeded) && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	if errors.As(err, &placed) {
		return &problem{placed.Message, placed.Line, placed.Column, placed.Excerpt()}
	}
	return &problem{Message: err.Error()}
}

// read decodes the body of a request into v, and answers it if that is not possible. Why the type:
// a form of another site cannot send it.
func read(w http.ResponseWriter, r *http.Request, v any) bool {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "application/json" {
		fail(w, r, http.StatusUnsupportedMediaType, errors.New("the body must be JSON"))
		return false
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		fail(w, r, http.StatusBadRequest, err)
		return false
	}
	return true
}

// call is the handler of requests whose body is a T, which f answers within the bounds of the
// console.
func call[T any](c *Console, f func(context.Context, *T) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in T
		if !read(w, r, &in) {
			return
		}
		r, end, err := c.begin(r)
		if err != nil {
			return // the browser has gone away
		}
		defer end()
		out, err := f(r.Context(), &in)
		if err != nil {
			fail(w, r, http.StatusBadRequest, err)
			return
		}
		answer(w, http.StatusOK, out)
	}
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the browser has gone away
}

// fail answers with an error.
func fail(w http.ResponseWriter, r *http.Request, code int, err error) {
	if errors.Is(err, engine.ErrClosed) {
		code = http.StatusServiceUnavailable
	}
	answer(w, code, map[string]any{"error": problemOf(r.Context(), err)})
}
