// Package etcdtest starts clusters of etcd in this process, for tests: real members, which talk to
// each other and to clients over the loopback.
package etcdtest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Cluster is a cluster of some members.
type Cluster struct {
	dir     string
	configs []*embed.Config

	mu      sync.Mutex
	members []*embed.Etcd // nil if it is down
}

// Start starts a cluster of n members, which keep their data in dir. Configure, if not nil, changes
// the settings of each of them.
func Start(dir string, n int, configure func(*embed.Config)) (*Cluster, error) {
	c := &Cluster{dir: dir, members: make([]*embed.Etcd, n)}
	peers, clients, err := addresses(n)
	if err != nil {
		return nil, err
	}
	var initial []string
	for i := range n {
		initial = append(initial, fmt.Sprintf("m%d=%s", i, peers[i].String()))
	}
	for i := range n {
		cfg := embed.NewConfig()
		cfg.Name, cfg.Dir = fmt.Sprintf("m%d", i), filepath.Join(dir, fmt.Sprint(i))
		cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = peers[i:i+1], peers[i:i+1]
		cfg.ListenClientUrls, cfg.AdvertiseClientUrls = clients[i:i+1], clients[i:i+1]
		cfg.InitialCluster = strings.Join(initial, ",")
		cfg.TickMs, cfg.ElectionMs = 50, 500
		cfg.UnsafeNoFsync, cfg.BcryptCost = true, 4 // nothing has to last, or to be kept secret
		if configure != nil {
			configure(cfg)
		}
		cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
		c.configs = append(c.configs, cfg)
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = c.Run(i) })
	}
	wg.Wait()
	return c, errors.Join(errs...)
}

// addresses returns free addresses of the loopback.
func addresses(n int) (peers, clients []url.URL, err error) {
	for i := range 2 * n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, err
		}
		defer l.Close()
		u := url.URL{Scheme: "http", Host: l.Addr().String()}
		if i < n {
			peers = append(peers, u)
		} else {
			clients = append(clients, u)
		}
	}
	return peers, clients, nil
}

// URL returns the URL of the database called name.
func (c *Cluster) URL(name string) string {
	var hosts []string
	for i := range c.configs {
		hosts = append(hosts, c.Address(i))
	}
	return "etcd://" + strings.Join(hosts, ",") + "/" + name
}

// Address returns HOST:PORT for clients of member i.
func (c *Cluster) Address(i int) string { return c.configs[i].ListenClientUrls[0].Host }

// Run starts member i, which is down.
func (c *Cluster) Run(i int) error {
	cfg := *c.configs[i]
	if _, err := os.Stat(filepath.Join(cfg.Dir, "member")); err == nil {
		cfg.ClusterState = embed.ClusterStateFlagExisting
	}
	e, err := embed.StartEtcd(&cfg)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.members[i] = e
	c.mu.Unlock()
	select {
	case <-e.Server.ReadyNotify():
		return nil
	case err := <-e.Err():
		return err
	case <-time.After(time.Minute):
		return fmt.Errorf("member %d is not ready", i)
	}
}

// Member returns member i, nil if it is down.
func (c *Cluster) Member(i int) *embed.Etcd {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[i]
}

// Leader returns the number of the leader, -1 if there is none.
func (c *Cluster) Leader() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, e := range c.members {
		if e != nil && e.Server.Leader() == e.Server.MemberID() {
			return i
		}
	}
	return -1
}

// Kill stops member i without a word to the others.
func (c *Cluster) Kill(i int) {
	c.mu.Lock()
	e := c.members[i]
	c.members[i] = nil
	c.mu.Unlock()
	if e != nil {
		e.Server.HardStop()
		e.Close()
	}
}

// Close ends the cluster.
func (c *Cluster) Close() {
	for i := range c.members {
		c.Kill(i)
	}
}
