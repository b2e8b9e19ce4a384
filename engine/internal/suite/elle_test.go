package suite_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A check of serializability after Elle (Kingsbury and Alvaro, VLDB 2020). Transactions
// append values to lists and read lists; no value is appended twice. So a list that was
// read shows the order of the versions before it and which transaction wrote each, and so
// which transaction must come before which:
//
//	ww   a appended right before b
//	wr   b read a list that ends in what a appended
//	rw   a read the list as it was right before b appended
//	rt   a had returned before b was called
//
// A history is strictly serializable if this has no cycle. The history must end with
// transactions that read every list.

// listOp reads a list, or appends a value, which is never 0, to it.
type listOp struct {
	list   int
	append int   // 0: a read
	read   []int // what the read returned
}

// listTx is a transaction of a history.
type listTx struct {
	ops       []listOp
	aborted   bool // surely not committed; its reads do not count
	call, ret int64
}

// listCheck is the check of one history.
type listCheck struct {
	txs      []listTx
	problems []string
	writer   map[int]int    // value → transaction
	last     map[[2]int]int // transaction and list → its last value
	versions map[int][]int  // list → values in order
	edges    map[int][]listEdge
}

type listEdge struct {
	to   int
	kind string
	list int
}

// checkSerializable returns what is wrong with the history, nothing if it is strictly
// serializable.
func checkSerializable(txs []listTx) []string {
	c := &listCheck{
		txs: txs, writer: map[int]int{}, last: map[[2]int]int{}, versions: map[int][]int{},
		edges: map[int][]listEdge{},
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

func (c *listCheck) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// writes notes the transaction that appended each value.
func (c *listCheck) writes() {
	for i, tx := range c.txs {
		for _, o := range tx.ops {
			if o.append == 0 {
				continue
			}
			if w, there := c.writer[o.append]; there {
				c.problem("value %d is appended by %d and %d: a bad history", o.append, w, i)
			}
			c.writer[o.append], c.last[[2]int{i, o.list}] = i, o.append
		}
	}
}

// order finds the order of versions and checks that every read is one of them.
func (c *listCheck) order() {
	for i, tx := range c.txs {
		own := map[int][]int{}
		for _, o := range tx.ops {
			if o.append != 0 {
				own[o.list] = append(own[o.list], o.append)
			} else if !tx.aborted {
				c.read(i, o, own[o.list])
			}
		}
	}
	for i, tx := range c.txs {
		for _, o := range tx.ops {
			v := c.versions[o.list]
			if o.append == 0 && !tx.aborted && !isPrefix(external(o.read, i, c), v) {
				c.problem("incompatible order: transaction %d read list %d as %v, another as %v",
					i, o.list, o.read, v)
			}
			if o.append != 0 && !tx.aborted && !slices.Contains(v, o.append) {
				c.problem("lost append: %d of transaction %d to list %d", o.append, i, o.list)
			}
		}
	}
}

// read judges one read by itself. Own is what the transaction appended before.
func (c *listCheck) read(i int, o listOp, own []int) {
	if n := len(o.read) - len(own); n < 0 || !slices.Equal(o.read[n:], own) {
		c.problem("internal: transaction %d appended %v to list %d and read %v",
			i, own, o.list, o.read)
		return
	}
	ext := o.read[:len(o.read)-len(own)]
	for _, v := range ext {
		w, there := c.writer[v]
		switch {
		case !there:
			c.problem("garbage: transaction %d read %d in list %d", i, v, o.list)
			return
		case c.txs[w].aborted:
			c.problem("G1a: transaction %d read %d of list %d, which %d never committed",
				i, v, o.list, w)
			return
		}
	}
	if n := len(ext); n > 0 {
		if w := c.writer[ext[n-1]]; w != i && c.last[[2]int{w, o.list}] != ext[n-1] {
			c.problem("G1b: transaction %d read list %d in the middle of transaction %d",
				i, o.list, w)
		}
	}
	if len(ext) > len(c.versions[o.list]) {
		c.versions[o.list] = ext
	}
}

// external returns what a read shows of others.
func external(read []int, i int, c *listCheck) []int {
	n := len(read)
	for n > 0 && c.writer[read[n-1]] == i {
		n--
	}
	return read[:n]
}

func isPrefix(a, b []int) bool { return len(a) <= len(b) && slices.Equal(a, b[:len(a)]) }

func (c *listCheck) edge(from, to int, kind string, list int) {
	if from != to {
		c.edges[from] = append(c.edges[from], listEdge{to, kind, list})
	}
}

// dependencies makes the edges of what was read and written.
func (c *listCheck) dependencies() {
	for list, v := range c.versions {
		for i := 1; i < len(v); i++ {
			c.edge(c.writer[v[i-1]], c.writer[v[i]], "ww", list)
		}
	}
	for i, tx := range c.txs {
		for _, o := range tx.ops {
			if o.append != 0 || tx.aborted {
				continue
			}
			n, v := len(external(o.read, i, c)), c.versions[o.list]
			if n > 0 {
				c.edge(c.writer[v[n-1]], i, "wr", o.list)
			}
			if n < len(v) {
				c.edge(i, c.writer[v[n]], "rw", o.list)
			}
		}
	}
}

// realTime makes edges from each transaction to those called after its return, by way of
// further nodes, which stand for moments: one edge for each pair would be too many.
func (c *listCheck) realTime() {
	var done []int
	for i, tx := range c.txs {
		if !tx.aborted && tx.ret > 0 {
			done = append(done, i)
		}
	}
	slices.SortFunc(done, func(a, b int) int { return cmp.Compare(c.txs[a].ret, c.txs[b].ret) })
	moment := func(k int) int { return len(c.txs) + k }
	for k, i := range done {
		c.edge(i, moment(k), "rt", -1)
		if k > 0 {
			c.edge(moment(k-1), moment(k), "rt", -1)
		}
	}
	for i, tx := range c.txs {
		k, _ := slices.BinarySearchFunc(done, tx.call, func(at int, call int64) int {
			return cmp.Compare(c.txs[at].ret, call)
		})
		if k > 0 && !tx.aborted && tx.call > 0 {
			c.edge(moment(k-1), i, "rt", -1)
		}
	}
}

// cycles reports one of the shortest cycles from each transaction that is in one, until
// there are a few.
func (c *listCheck) cycles() {
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
func (c *listCheck) components() (groups [][]int) {
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
func (c *listCheck) shortest(from int) string {
	type step struct {
		node int
		edge listEdge
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
