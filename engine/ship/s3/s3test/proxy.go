package s3test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Proxy stands between a client and a server, and fails: it refuses, loses answers, tears contents
// of requests and of answers, and delays, repeats and keeps requests for later.
type Proxy struct {
	target string
	server *httptest.Server

	// Change, if not nil, is given each request before it is forwarded. It reports whether it has
	// answered. It is set before the first request.
	Change func(http.ResponseWriter, *http.Request) (answered bool)

	mu   sync.Mutex
	rnd  *rand.Rand     // guarded by mu
	rate int            // guarded by mu: one request in so many is wrong; 0: none
	late []func()       // guarded by mu: requests that arrive later
	hits map[string]int // guarded by mu
	dead bool           // guarded by mu: every request is refused
}

// NewProxy starts a proxy that lets one request in rate fail, all pass if it is 0.
func NewProxy(tb testing.TB, target string, rnd *rand.Rand, rate int) *Proxy {
	p := &Proxy{target: target, rnd: rnd, rate: rate, hits: map[string]int{}}
	p.server = httptest.NewServer(p)
	tb.Cleanup(p.server.Close)
	return p
}

// Addr returns the address.
func (p *Proxy) Addr() string { return p.server.Listener.Addr().String() }

// Heal ends all faults. What is late arrives.
func (p *Proxy) Heal() {
	p.mu.Lock()
	late := p.late
	p.rate, p.late = 0, nil
	p.mu.Unlock()
	for _, arrive := range late {
		arrive()
	}
}

// SetDead has every request refused, or ends that.
func (p *Proxy) SetDead(dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = dead
}

// Hits returns how often each fault has happened.
func (p *Proxy) Hits() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hits
}

// Faults. Those that are not for every method come last.
const (
	refuse = iota
	loseAnswer
	otherAnswer
	tearAnswer
	repeat
	delay
	tearRequest
	late
	faults
)

var faultNames = [...]string{"refused", "answer lost", "404, 500 or 503 after the work",
	"answer torn", "repeated", "delayed", "request torn", "late"}

func (p *Proxy) draw(method string) (fault int, more uint64) {
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return refuse, 0
	}
	if len(p.late) > 0 && p.rnd.IntN(3) == 0 {
		arrive := p.late[0]
		p.late = p.late[1:]
		p.mu.Unlock()
		arrive()
		p.mu.Lock()
	}
	defer p.mu.Unlock()
	if p.rate == 0 || p.rnd.IntN(p.rate) > 0 {
		return -1, 0
	}
	n := faults
	if method != http.MethodPut {
		n = tearRequest
	}
	fault = p.rnd.IntN(n)
	p.hits[faultNames[fault]]++
	return fault, p.rnd.Uint64()
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.Change != nil && p.Change(w, r) {
		return
	}
	content, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	fault, more := p.draw(r.Method)
	status := [...]int{404, 500, 503}[more%3]
	switch fault {
	case refuse:
		w.WriteHeader(503)
		return
	case late:
		p.mu.Lock()
		p.late = append(p.late, func() { _, _, _ = p.forward(r, content, len(content)) })
		p.mu.Unlock()
		w.WriteHeader(503)
		return
	case tearRequest:
		_, _, _ = p.forward(r, content, len(content)/2)
		panic(http.ErrAbortHandler)
	case repeat:
		_, _, _ = p.forward(r, content, len(content))
	case delay:
		<-time.After(time.Duration(more%10) * time.Millisecond)
	}
	resp, body, err := p.forward(r, content, len(content))
	if err != nil || fault == loseAnswer {
		panic(http.ErrAbortHandler)
	}
	if fault == otherAnswer {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<html>gateway</html>")
		return
	}
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	if fault == tearAnswer {
		_, _ = w.Write(body[:len(body)/2])
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body)
}

// forward sends a request to the server, with the first n bytes of its content.
func (p *Proxy) forward(r *http.Request, content []byte, n int) (*http.Response, []byte, error) {
	req, err := http.NewRequest(r.Method, "http://"+p.target+r.URL.RequestURI(),
		bytes.NewReader(content[:n]))
	if err != nil {
		return nil, nil, err
	}
	req.Host, req.Header = r.Host, r.Header.Clone()
	req.ContentLength = int64(len(content))
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	return resp, body, err
}
