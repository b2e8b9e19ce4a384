// Package elle checks histories of transactions for serializability, after Elle (Kingsbury and
// Alvaro, VLDB 2020). Transactions append values to lists and read lists; no value is appended
// twice. So a list that was read shows the order of the versions before it and which transaction
// wrote each, and so which transaction must come before which:
//
//	ww   a appended right before b
//	wr   b read a list that ends in what a appended
//	rw   a read the list as it was right before b appended
//	rt   a had returned before b was called
//
// A history is serializable if this has no cycle, strictly so with the times of rt. The history
// must end with transactions that read every list.
package elle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Op reads a list, or appends a value, which is never 0, to it.
type Op struct {
	List   int
	Append int   // 0: a read
	Read   []int // what the read returned
}

// Tx is a transaction of a history.
type Tx struct {
	Ops     []Op
	Aborted bool // surely not committed; its reads do not count
	// Call and Return are its times; 0: it takes no part in the order by real time.
	Call, Return int64
}

// check is a call of Check.
type check struct {
	txs      []Tx
	problems []string
	writer   map[int]int    // value → transaction
	last     map[[2]int]int // transaction and list → its last value
	versions map[int][]int  // list → values in order
	edges    map[int][]edge
}

type edge struct {
	to   int
	kind string
	list int
}

// Check returns what is wrong with a history, nothing if it is serializable.
func Check(txs []Tx) []string {
	c := &check{
		txs: txs, writer: map[int]int{}, last: map[[2]int]int{}, versions: map[int][]int{},
		edges: map[int][]edge{},
	}
	c.writes()
	c.order()
	if len(c.problems) == 0 {
		c.dependencies()
		c.realTime()
		c.cycles()
	}
	return c.problems
}

func (c *check) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// writes notes the transaction that appended each value.
func (c *check) writes() {
	for i, tx := range c.txs {
		for _, o := range tx.Ops {
			if o.Append == 0 {
				continue
			}
			if w, there := c.writer[o.Append]; there {
				c.problem("value %d is appended by %d and %d: a bad history", o.Append, w, i)
			}
			c.writer[o.Append], c.last[[2]int{i, o.List}] = i, o.Append
		}
	}
}

// order finds the order of versions and checks that every read is one of them.
func (c *check) order() {
	for i, tx := range c.txs {
		own := map[int][]int{}
		for _, o := range tx.Ops {
			if o.Append != 0 {
				own[o.List] = append(own[o.List], o.Append)
			} else if !tx.Aborted {
				c.read(i, o, own[o.List])
			}
		}
	}
	for i, tx := range c.txs {
		for _, o := range tx.Ops {
			v := c.versions[o.List]
			if o.Append == 0 && !tx.Aborted && !isPrefix(external(o.Read, i, c), v) {
				c.problem("incompatible order: transaction %d read list %d as %v, another as %v",
					i, o.List, o.Read, v)
			}
			if o.Append != 0 && !tx.Aborted && !slices.Contains(v, o.Append) {
				c.problem("lost append: %d of transaction %d to list %d", o.Append, i, o.List)
			}
		}
	}
}

// read judges one read by itself. Own is what the transaction appended before.
func (c *check) read(i int, o Op, own []int) {
	if n := len(o.Read) - len(own); n < 0 || !slices.Equal(o.Read[n:], own) {
		c.problem("internal: transaction %d appended %v to list %d and read %v",
			i, own, o.List, o.Read)
		return
	}
	ext := o.Read[:len(o.Read)-len(own)]
	for _, v := range ext {
		w, there := c.writer[v]
		switch {
		case !there:
			c.problem("garbage: transaction %d read %d in list %d", i, v, o.List)
			return
		case w == i:
			c.problem("internal: transaction %d read %d in list %d before it appended it", i, v,
				o.List)
			return
		case c.txs[w].Aborted:
			c.problem("G1a: transaction %d read %d of list %d, which %d never committed",
				i, v, o.List, w)
			return
		}
	}
	if n := len(ext); n > 0 {
		if w := c.writer[ext[n-1]]; c.last[[2]int{w, o.List}] != ext[n-1] {
			c.problem("G1b: transaction %d read list %d in the middle of transaction %d",
				i, o.List, w)
		}
	}
	if len(ext) > len(c.versions[o.List]) {
		c.versions[o.List] = ext
	}
}

// external returns what a read shows of others.
func external(read []int, i int, c *check) []int {
	n := len(read)
	for n > 0 && c.writer[read[n-1]] == i {
		n--
	}
	return read[:n]
}

func isPrefix(a, b []int) bool { return len(a) <= len(b) && slices.Equal(a, b[:len(a)]) }

func (c *check) depends(from, to int, kind string, list int) {
	if from != to {
		c.edges[from] = append(c.edges[from], edge{to, kind, list})
	}
}

// dependencies makes the edges of what was read and written.
func (c *check) dependencies() {
	for list, v := range c.versions {
		for i := 1; i < len(v); i++ {
			c.depends(c.writer[v[i-1]], c.writer[v[i]], "ww", list)
		}
	}
	for i, tx := range c.txs {
		for _, o := range tx.Ops {
			if o.Append != 0 || tx.Aborted {
				continue
			}
			n, v := len(external(o.Read, i, c)), c.versions[o.List]
			if n > 0 {
				c.depends(c.writer[v[n-1]], i, "wr", o.List)
			}
			if n < len(v) {
				c.depends(i, c.writer[v[n]], "rw", o.List)
			}
		}
	}
}

// realTime makes edges from each transaction to those called after its return, by way of
// further nodes, which stand for moments: one edge for each pair would be too many.
func (c *check) realTime() {
	var done []int
	for i, tx := range c.txs {
		if !tx.Aborted && tx.Return > 0 {
			done = append(done, i)
		}
	}
	slices.SortFunc(done, func(a, b int) int {
		return cmp.Compare(c.txs[a].Return, c.txs[b].Return)
	})
	moment := func(k int) int { return len(c.txs) + k }
	for k, i := range done {
		c.depends(i, moment(k), "rt", -1)
		if k > 0 {
			c.depends(moment(k-1), moment(k), "rt", -1)
		}
	}
	for i, tx := range c.txs {
		k, _ := slices.BinarySearchFunc(done, tx.Call, func(at int, call int64) int {
			return cmp.Compare(c.txs[at].Return, call)
		})
		if k > 0 && !tx.Aborted && tx.Call > 0 {
			c.depends(moment(k-1), i, "rt", -1)
		}
	}
}

// cycles reports one of the shortest cycles from each transaction that is in one, until
// there are a few.
func (c *check) cycles() {
	for _, group := range c.components() {
		for _, from := range group {
			if from >= len(c.txs) {
				continue
			}
			c.problem("%s", c.shortest(from))
			break
		}
		if len(c.problems) > 3 {
			return
		}
	}
}

// components returns the strongly connected components of more than one node, by
// Tarjan's algorithm without recursion.
func (c *check) components() (groups [][]int) {
	type frame struct{ node, edge int }
	num, low, on := map[int]int{}, map[int]int{}, map[int]bool{}
	var stack []int
	for root := range c.txs {
		if num[root] > 0 {
			continue
		}
		work := []frame{{root, 0}}
		for len(work) > 0 {
			f := &work[len(work)-1]
			n := f.node
			if f.edge == 0 {
				num[n], low[n] = len(num)+1, len(num)+1
				stack, on[n] = append(stack, n), true
			}
			if f.edge < len(c.edges[n]) {
				to := c.edges[n][f.edge].to
				f.edge++
				if num[to] == 0 {
					work = append(work, frame{to, 0})
				} else if on[to] {
					low[n] = min(low[n], num[to])
				}
				continue
			}
			work = work[:len(work)-1]
			if len(work) > 0 {
				above := work[len(work)-1].node
				low[above] = min(low[above], low[n])
			}
			if low[n] == num[n] {
				at := slices.Index(stack, n)
				group := slices.Clone(stack[at:])
				for _, m := range group {
					on[m] = false
				}
				if stack = stack[:at]; len(group) > 1 {
					groups = append(groups, group)
				}
			}
		}
	}
	return groups
}

// shortest describes a shortest cycle through a transaction, with its name.
func (c *check) shortest(from int) string {
	type step struct {
		node int
		edge edge
	}
	came := map[int]step{}
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		for _, e := range c.edges[n] {
			if _, seen := came[e.to]; seen {
				continue
			}
			came[e.to] = step{n, e}
			queue = append(queue, e.to)
		}
	}
	var path []string
	kinds := map[string]int{}
	for at := from; ; {
		s := came[at]
		kinds[s.edge.kind]++
		path = append(path, fmt.Sprintf("%d -%s(%d)-> %d", s.node, s.edge.kind, s.edge.list, at))
		if at = s.node; at == from {
			break
		}
	}
	slices.Reverse(path)
	return anomaly(kinds) + ": " + strings.Join(path, ", ")
}

// anomaly names a cycle by its edges, after Adya.
func anomaly(kinds map[string]int) (name string) {
	switch {
	case kinds["rw"] > 1:
		name = "G2 (write skew)"
	case kinds["rw"] == 1:
		name = "G-single (lost update or read skew)"
	case kinds["wr"] > 0:
		name = "G1c"
	default:
		name = "G0"
	}
	if kinds["rt"] > 0 {
		name += ", by real time"
	}
	return name
}
