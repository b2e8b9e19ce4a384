package testutil

import (
	"net"
	"sync"
	"testing"
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

	mu    sync.Mutex
	fault Fault
	moved chan struct{} // closed when the fault changes
	conns map[net.Conn]bool
	ended bool
}

// NewProxy listens on the loopback and forwards connections to an address, until the test ends.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, to: to, moved: make(chan struct{}), conns: map[net.Conn]bool{}}
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
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || p.await(cut) {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
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
