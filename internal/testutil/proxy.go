package testutil

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Fault is what a Proxy does to what passes through it.
type Fault int

// The faults.
const (
	Pass       Fault = iota
	Stall            // nothing is forwarded, and what has arrived waits
	CutRequest       // connections are closed instead of forwarding what a client sends
	CutAnswer        // or what the server sends
)

// Proxy is between clients and a server.
type Proxy struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup
	latency  atomic.Int64

	mu    sync.Mutex
	fault Fault
	moved chan struct{} // closed when the fault changes
	conns map[net.Conn]bool
	ended bool
	after map[Fault]int // bytes until a cut: see CutAfter
}

// NewProxy listens on the loopback and forwards connections to an address, until the test ends.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, to: to, moved: make(chan struct{}), conns: map[net.Conn]bool{},
		after: map[Fault]int{}}
	p.wg.Go(p.accept)
	t.Cleanup(p.end)
	return p
}

// Addr returns HOST:PORT.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set sets the fault.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	close(p.moved)
	p.moved = make(chan struct{})
}

// CutAfter closes one connection after n more bytes of what a cut is about. It replaces that of an
// earlier call, and reports whether that is still to come.
func (p *Proxy) CutAfter(cut Fault, n int) (left bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left = len(p.after) > 0
	p.after = map[Fault]int{cut: n}
	return left
}

// part returns what is forwarded of some bytes, less than all of them where a connection is cut.
func (p *Proxy) part(cut Fault, b []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.after[cut]
	switch {
	case !ok:
	case n < len(b):
		delete(p.after, cut)
		return b[:n]
	default:
		p.after[cut] = n - len(b)
	}
	return b
}

// SetLatency makes what clients send arrive d later.
func (p *Proxy) SetLatency(d time.Duration) { p.latency.Store(int64(d)) }

func (p *Proxy) end() {
	p.listener.Close()
	p.mu.Lock()
	p.ended = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.Set(CutRequest)
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", p.to)
		if err != nil {
			c.Close()
			continue
		}
		p.mu.Lock()
		p.conns[c], p.conns[up] = true, true
		if p.ended {
			c.Close()
			up.Close()
		}
		p.mu.Unlock()
		p.wg.Go(func() { p.forward(up, c, CutRequest) })
		p.wg.Go(func() { p.forward(c, up, CutAnswer) })
	}
}

// forward copies until one side closes, or it is to cut here.
func (p *Proxy) forward(to, from net.Conn, cut Fault) {
	type piece struct {
		bytes []byte
		due   time.Time
	}
	defer from.Close()
	pieces := make(chan piece, 1<<10)
	p.wg.Go(func() {
		defer to.Close()
		for piece := range pieces {
			if wait := time.Until(piece.due); wait > 0 {
				<-time.After(wait)
			}
			if _, err := to.Write(piece.bytes); err != nil {
				from.Close() // and the reader ends
			}
		}
	})
	defer close(pieces)
	for {
		buf := make([]byte, 32<<10)
		n, err := from.Read(buf)
		if err != nil || p.await(cut) {
			return
		}
		due := time.Now()
		if cut == CutRequest {
			due = due.Add(time.Duration(p.latency.Load()))
		}
		part := p.part(cut, buf[:n])
		if pieces <- (piece{part, due}); len(part) < n {
			return
		}
	}
}

// await waits while the proxy stalls, and reports whether it cuts here, or has ended.
func (p *Proxy) await(cut Fault) bool {
	for {
		p.mu.Lock()
		fault, moved, ended := p.fault, p.moved, p.ended
		p.mu.Unlock()
		if fault != Stall || ended {
			return fault == cut || ended
		}
		<-moved
	}
}
